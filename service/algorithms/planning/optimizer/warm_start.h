// A plan from an earlier one, for other counts and perhaps other limits.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_WARM_START_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_WARM_START_H_

#include <vector>

#include "service/algorithms/planning/optimizer/merged_items.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/vector_level.h"

namespace packhouse {

// Uses patterns of `earlier`, a plan of as many components, as far as the counts allow, and
// first-fit decreasing for the rest. `now` has the tuples of the present histogram, and `merged`
// makes them the items of `problem`, whose numbers the patterns have. Each pattern that is still
// possible joins `pool`, once. Any nonsense may be in `earlier`. Empty if `budget` has no room or
// the caller gave up.
std::vector<Pattern> PlanFromWarmStart(const PackingProblem& problem, const PackingPlan& now,
                                       const MergedItems& merged, const PackingPlan& earlier,
                                       VectorLevel level, WorkBudget& budget,
                                       std::vector<Pattern>& pool);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_WARM_START_H_
