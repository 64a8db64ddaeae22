// Takes a plan apart in part and puts it together with one pack less.
#ifndef PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_PLAN_IMPROVEMENT_H_
#define PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_PLAN_IMPROVEMENT_H_

#include <cstdint>
#include <vector>

#include "service/base/vector_level.h"
#include "service/planning/packing_problem.h"
#include "service/planning/plan.h"
#include "service/planning/work_budget.h"

namespace packhouse {

struct ImprovementOptions {
  // Few enough packs: then it ends.
  uint64_t target = 0;
  uint64_t seed = 0;
  // Ends after so many tries in a row without a pack saved.
  uint32_t max_fruitless_tries = 400;
  VectorLevel vector_level = BestVectorLevel();
};

// Large neighbourhood search (Shaw 1998): the packs that waste most, until their waste adds up to a
// pack, and some random ones beside are packed anew by the mixing planner; whatever is not worse is
// kept. `patterns` must use up `problem`, and do so afterwards, with at most as many packs.
// Deterministic; thread-safe. Returns the packs saved.
uint64_t ImprovePlan(const PackingProblem& problem, const ImprovementOptions& options,
                     std::vector<Pattern>& patterns, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_PLAN_IMPROVEMENT_H_
