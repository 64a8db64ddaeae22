// Takes a part of a plan apart and packs it again with one pack less.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_IMPROVEMENT_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_IMPROVEMENT_H_

#include <cstdint>
#include <vector>

#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/vector_level.h"

namespace packhouse {

struct ImprovementOptions {
  // Ends when the plan has this few packs.
  uint64_t target = 0;
  uint64_t seed = 0;
  // Ends after this many tries in a row that saved no pack.
  uint32_t max_fruitless_tries = 400;
  // As MixingOptions.
  int choices = 4;
  double finish_at = 2.5;
  VectorLevel vector_level = BestVectorLevel();
};

// Large neighbourhood search (Shaw 1998). The mixing planner packs some packs anew: those that
// waste most, until their waste adds up to a pack, and some random ones. The result is kept if it
// is not worse. `patterns` must have every item of `problem` once; afterwards they still do, with
// at most as many packs. Deterministic; thread-safe. Returns the number of packs saved.
uint64_t ImprovePlan(const PackingProblem& problem, const ImprovementOptions& options,
                     std::vector<Pattern>& patterns, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_IMPROVEMENT_H_
