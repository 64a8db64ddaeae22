// Tuple packing exactly as the paper's companion notebook computes it: a reference, not a planner.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_NOTEBOOK_PACKING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_NOTEBOOK_PACKING_H_

#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/baselines/priority.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// Reproduces the published figures (Table 2 of Krell et al. 2022) to the last digit, by
// MeasurePlan's efficiency_of_fullest. It differs from PlanByTuplePacking:
// - kMin computes a maximum;
// - once a graph of a size was placed, packs whose room has exactly the size's own priority are
//   passed over for the other graphs of that size: the search continues one above;
// - a pattern that is split goes to the end of its bucket;
// - a pattern whose room has priority 0 is closed, though graphs without edges might still fit.
//
// All components need a limit. Errors and cost as PlanByTuplePacking.
absl::StatusOr<PackingPlan> PlanByNotebook(const SizeHistogram& histogram, const Limits& limits,
                                           const Priority& priority, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_NOTEBOOK_PACKING_H_
