// Column generation: the linear program over all possible patterns, and whole packs from it.
//
// Flow: cheaper planners give a pool of patterns, and the linear program over the pool is solved.
// With its duals as values, the patterns that are worth most (pattern_pricing.h) join the pool,
// until no pattern is worth more than a pack (Gilmore and Gomory 1961, 1963). The duals in whole
// numbers give a lower bound that is exact in spite of rounding errors. Then come whole packs: of
// each pattern as many as the program uses, rounded down; then one more of the pattern that is
// nearest to a whole pack; then the program is solved again for the rest.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_COLUMN_GENERATION_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_COLUMN_GENERATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/vector_level.h"

namespace packhouse {

// At most the bytes of its tables (of all items squared, and of all rooms that a pack can have), if
// SuitsColumnGeneration; without patterns.
uint64_t ColumnGenerationBytes(uint64_t num_items);

// Whether its tables are small enough, and whether this many steps are likely to suffice.
bool SuitsColumnGeneration(const PackingProblem& problem, uint64_t steps);

struct ColumnGenerationResult {
  // No plan has fewer packs. At least the bound that was known.
  uint64_t lower_bound = 0;
  // Patterns that have every item once; empty if the budget ended before.
  std::vector<Pattern> patterns;
  uint64_t packs = 0;
};

struct ColumnGenerationOptions {
  // A known bound: the search ends when it is met.
  uint64_t lower_bound = 0;
  uint64_t seed = 0;
  // No whole packs are made: the result has no patterns.
  bool only_bound = false;
  VectorLevel vector_level = BestVectorLevel();
};

// `pool`: patterns to start from, entries ascending. Requires SuitsColumnGeneration, and that every
// item has a size above 0 in some component. Deterministic; thread-safe.
ColumnGenerationResult PlanByColumnGeneration(const PackingProblem& problem,
                                              absl::Span<const Pattern> pool,
                                              const ColumnGenerationOptions& options,
                                              WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_COLUMN_GENERATION_H_
