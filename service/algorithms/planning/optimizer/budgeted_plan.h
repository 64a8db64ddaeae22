// One of many plans that share a budget.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_BUDGETED_PLAN_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_BUDGETED_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// The least steps that a plan takes from a budget, for work that it does not count: sorting,
// first-fit decreasing, verification.
uint64_t LeastPlanSteps(const SizeHistogram& histogram);

// OptimizePlan with at most the steps that `budget` has left. `budget` pays for these steps and for
// LeastPlanSteps. There is always a plan, even if no steps are left. Errors: CANCELLED.
absl::StatusOr<CertifiedPlan> PlanWithinBudget(const SizeHistogram& histogram, const Limits& limits,
                                               OptimizerOptions options, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_BUDGETED_PLAN_H_
