// Packs parts of a graph into batches in which edges between them are edges again.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_PACKING_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_PACKING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/engine/epochs/making.h"
#include "service/wings/partition/epochs/part_links.h"
#include "service/wings/partition/epochs/parts_schema.h"

namespace packhouse {

struct JoinedPacks {
  // Parts, batch by batch, and where each batch begins; its end last.
  std::vector<uint32_t> parts;
  std::vector<uint32_t> starts;
  // Edges between parts of the same batch.
  uint64_t num_restored = 0;

  size_t num_batches() const { return starts.size() - 1; }
  absl::Span<const uint32_t> batch(size_t number) const {
    return absl::MakeConstSpan(parts).subspan(starts[number], starts[number + 1] - starts[number]);
  }
};

// How many parts may be tried for a batch before it is closed.
inline constexpr size_t kJoinedLookAhead = 64;

// Each batch begins with the first part of `order` that is in none, and takes the first of the next
// kJoinedLookAhead that fits, until none fits. `add_tuple` adds the rows of a part by joined
// component, without cut edges; `fits` says whether a batch may have these rows, `graphs` last.
// Each part of `order` must fit by itself. Depends on the arguments alone.
//
// CANCELLED as `making`. O(parts * (kJoinedLookAhead * components) + links); 24 bytes for each part
// of the data set, which the caller has reserved.
absl::StatusOr<JoinedPacks> PackJoined(
    absl::Span<const uint32_t> order, size_t num_parts, const PartsSchema& schema,
    const PartLinks& links, const Making& making,
    absl::FunctionRef<void(uint32_t part, absl::Span<uint64_t> rows)> add_tuple,
    absl::FunctionRef<bool(absl::Span<const uint64_t> rows)> fits);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_PACKING_H_
