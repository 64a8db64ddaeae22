// Plans for sizes that differ only where no limit can bind, as if they were one size.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_MERGED_SIZES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_MERGED_SIZES_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// The plan that `planner` makes of the merged sizes (optimizer/merged_items.h), for the sizes of
// `histogram`. Tuple packing takes time by the square of the number of sizes, and a component
// without a limit, such as the length of a text, makes nearly every size unique. If nothing can be
// merged, this is planner(histogram).
//
// Errors: those of `planner`; CANCELLED if `budget` says so.
absl::StatusOr<PackingPlan> PlanMerged(
    const SizeHistogram& histogram, const Limits& limits, WorkBudget& budget,
    absl::FunctionRef<absl::StatusOr<PackingPlan>(const SizeHistogram& merged)> planner);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_MERGED_SIZES_H_
