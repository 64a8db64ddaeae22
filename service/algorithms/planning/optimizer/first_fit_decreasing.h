// First-fit decreasing, one pack at a time.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIRST_FIT_DECREASING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIRST_FIT_DECREASING_H_

#include <cstdint>
#include <vector>

#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/vector_level.h"

namespace packhouse {

// Items that have a count, by descending LargestShare; ties: the lexicographically larger sizes,
// then the smaller number.
std::vector<uint32_t> HardestFirst(const PackingProblem& problem);

// Fills one pack at a time: goes through the items in HardestFirst order and takes of each as many
// as fit. Then repeats that pack as often as it would come out the same. This gives the same packs
// as first-fit decreasing (Johnson 1973) with all packs open at once, in O(patterns * (entries + n
// / 64)) instead of O(graphs * packs).
//
// Every item is used up, unless `budget` is given and refuses. Patterns have items ascending and
// may repeat one another. Thread-safe.
std::vector<Pattern> PlanByFirstFitDecreasing(const PackingProblem& problem, VectorLevel level,
                                              WorkBudget* budget = nullptr);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIRST_FIT_DECREASING_H_
