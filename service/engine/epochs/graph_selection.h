// Second step of a plan: which graphs of a data set an epoch may take.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_GRAPH_SELECTION_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_GRAPH_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// All graphs of a data set, or those of a subset. Immutable; thread-safe. A subset takes 4 bytes
// for each graph of the data set, reserved as long as it lives.
class GraphSelection {
 public:
  // The reader must have at most ItemSizes::kMaxItems graphs.
  //
  // The subset of a segment is `of_whole`; see SubsetOfWhole().
  //
  // Errors: INVALID_ARGUMENT naming an id that is listed twice or that no graph has, or a range
  // that is empty, exceeds 64 bits or overlaps another; DATA_LOSS if the sizes of a selected graph
  // cannot be read; RESOURCE_EXHAUSTED and CANCELLED as `making`. O(graphs) expected.
  static absl::StatusOr<GraphSelection> Create(const DatasetReader& reader,
                                               const std::optional<SubsetRequest>& subset,
                                               const Making& making);

  size_t num_graphs() const { return positions_ ? positions_->size() : num_graphs_; }
  // For a subset: the places of its graphs in the data set, ascending. Valid as long as this
  // object.
  std::optional<absl::Span<const uint32_t>> positions() const { return positions_; }

 private:
  explicit GraphSelection(size_t num_graphs) : num_graphs_(num_graphs) {}

  MemoryHold memory_;
  size_t num_graphs_;  // Of the data set.
  std::optional<std::vector<uint32_t>> positions_;
};

// The subset for the segments of a data set, as SubsetRequest::of_whole. INVALID_ARGUMENT naming an
// id that is listed twice, or a range as GraphSelection::Create(). O(n log n) for n ids and ranges.
absl::StatusOr<std::shared_ptr<const SubsetRequest>> SubsetOfWhole(SubsetRequest subset);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_GRAPH_SELECTION_H_
