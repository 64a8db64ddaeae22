// A window of an epoch of sub-graphs: drawn for its sizes, and packed by a plan of its own, or in
// order.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLE_WINDOW_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLE_WINDOW_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// What a window needs to know of a sub-graph.
struct DrawnSize {
  absl::Span<const uint32_t> tuple;
  // 0: as the spec says; above: drawn smaller.
  uint32_t level = 0;
};

// Immutable.
struct SampleWindow {
  MemoryHold memory;
  // Items are numbered from 0 within the window.
  EpochBatches batches;
  // Items that were drawn smaller, ascending, and their levels.
  std::vector<std::pair<uint32_t, uint32_t>> levels;
  // As if the first batch began a step; nullopt unless batches come in steps of like cost.
  std::optional<StepFigures> steps;

  // 0 for an item that is not in `levels`. O(log).
  uint32_t LevelOf(uint32_t item) const;
};

// Packs `num_items` sub-graphs, at least one, of `components` into batches of the one shape, and
// orders them as the request says, whose seed is the window's own. `draw` gives the size of each,
// in order; it is valid until the next one. Depends on the sizes, the shape and the request alone.
// `max_batch_bytes` as MixingFor().
//
// OUT_OF_RANGE naming the component and the limit that an item exceeds; errors of `draw`;
// RESOURCE_EXHAUSTED and CANCELLED as `making`. Cost: the draws, and the planner's budget
// (plan_optimizer.h).
absl::StatusOr<SampleWindow> PlanWindow(
    size_t num_items, const SizeSchema& components, const EpochRequest& request,
    const EpochShapes& shapes, uint64_t max_batch_bytes, const Making& making,
    absl::FunctionRef<absl::StatusOr<DrawnSize>(size_t item)> draw);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLE_WINDOW_H_
