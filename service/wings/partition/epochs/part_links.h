// Which parts of a data set have edges between them, and how many.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_LINKS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/item_kind.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/partition/epochs/parts_schema.h"

namespace packhouse {

// Edges between a part and another one, in either direction.
struct PartLink {
  uint32_t other;
  uint32_t edge_set;  // As PartsSchema::edge_sets().
  uint32_t edges;
};

// Immutable; thread-safe. Parts are the places of graphs in the data set. Epochs of a data set
// share them: they depend on its graphs alone.
class PartLinks final : public KeptOfDataset {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Reads the numbers of all nodes and the sources of all cut edges. FAILED_PRECONDITION naming the
  // part and the number, if the numbers of a node set are not 0 to n - 1, each once, or those of a
  // part do not ascend; DATA_LOSS as the reader; RESOURCE_EXHAUSTED and CANCELLED as `making`: 4
  // bytes a node, and at most 40 for each cut edge.
  static absl::StatusOr<PartLinks> Read(const DatasetReader& reader, const PartsSchema& schema,
                                        const Making& making);

  // Links of both directions; two of the same parts and edge set have one entry each way.
  absl::Span<const PartLink> of(uint32_t part) const {
    return absl::MakeConstSpan(links_).subspan(starts_[part], starts_[part + 1] - starts_[part]);
  }
  // The part that has a node of a node set (PartsSchema::node_sets()); kNone if none has.
  uint32_t PartOf(size_t node_set, uint32_t number) const {
    const std::vector<uint32_t>& parts = part_of_[node_set];
    return number < parts.size() ? parts[number] : kNone;
  }
  uint64_t bytes() const override;

 private:
  PartLinks() = default;

  absl::Status ReadNodes(const DatasetReader& reader, const PartsSchema& schema,
                         const Making& making);
  absl::Status ReadCutEdges(const DatasetReader& reader, const PartsSchema& schema,
                            const Making& making);

  MemoryHold memory_;
  std::vector<std::vector<uint32_t>> part_of_;  // By node set and number.
  std::vector<uint64_t> starts_;
  std::vector<PartLink> links_;
};

// Row `row` of a column of numbers of nodes, little-endian int64.
inline int64_t NumberAt(absl::string_view rows, size_t row) {
  int64_t number;
  std::memcpy(&number, rows.data() + row * sizeof(number), sizeof(number));
  return number;
}

// The same of uint32.
inline uint32_t SourceAt(absl::string_view rows, size_t row) {
  uint32_t number;
  std::memcpy(&number, rows.data() + row * sizeof(number), sizeof(number));
  return number;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_LINKS_H_
