// The baselines of the tuple-packing paper, which any planner should beat.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_BASELINES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_BASELINES_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// One graph in each pack. O(d).
PackingPlan PlanWithoutPacking(const SizeHistogram& histogram);

// Packs by one component and the number of graphs, and ignores the other limits (Krell et al. 2022,
// section 4.1). Packs may exceed these; MeasurePlan's fullest_pack tells the capacity that they
// would need. Sizes that are equal in this component are one size. Errors as PlanByTuplePacking.
absl::StatusOr<PackingPlan> PlanBySingleComponent(const SizeHistogram& histogram,
                                                  const Limits& limits, size_t component,
                                                  WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_BASELINES_H_
