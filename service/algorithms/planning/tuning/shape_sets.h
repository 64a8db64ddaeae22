// Several shapes for one histogram, for clients that can compile more than one.
//
// Large graphs need a large shape. Often most packs cannot fill it in every component: the number
// of graphs may be bounded, or one component of a few graphs may be unusually large. Then smaller
// shapes for the other graphs cost less.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_SHAPE_SETS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_SHAPE_SETS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// The packs that use one shape.
struct ShapePacks {
  // l + 1 entries, `graphs` last.
  std::vector<uint64_t> capacities;
  // Its tuples are those of the whole histogram.
  PackingPlan plan;
  // The graphs that it packs.
  SizeHistogram graphs;
};

// Packs a histogram for several shapes. One of them must take each graph, and none should take all
// that an earlier one takes. From the first shape to the last, it plans the graphs that no later
// shape takes with as few packs as possible, and fills the room that is left with other graphs, the
// hardest first. So each pack is in the last shape that takes it.
//
// Every graph is in exactly one pack of one shape, and no pack exceeds its shape; verified. A shape
// may have no packs. `options` are for each plan; a plan takes no more steps than `budget` has
// left. Errors: CANCELLED; INTERNAL if no shape takes a graph. Thread-safe.
absl::StatusOr<std::vector<ShapePacks>> PlanForShapes(
    const SizeHistogram& histogram, absl::Span<const std::vector<uint64_t>> shapes,
    const OptimizerOptions& options, WorkBudget& budget);

// Sum over the shapes of packs * CostOfShape.
double CostOfShapePacks(const DeviceProfile& profile, absl::Span<const ShapePacks> shapes);

// Chooses 2 to profile.max_distinct_shapes shapes, the largest first. Each has packs, and none has
// more rows of any component than the one before it. Together their packs cost less than
// `most_cost`, the cost of one shape. Empty if no such shapes were found. Each further shape saves
// at least 0.1 %. Shapes are picked by their volumes, as if graphs could be cut, and then tried and
// improved with plans, as long as `budget` lasts. Errors: CANCELLED. Requires what CandidateGrid
// requires. Thread-safe.
absl::StatusOr<std::vector<ShapePacks>> ChooseShapes(const SizeHistogram& histogram,
                                                     const DeviceProfile& profile, double most_cost,
                                                     const OptimizerOptions& options,
                                                     WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_SHAPE_SETS_H_
