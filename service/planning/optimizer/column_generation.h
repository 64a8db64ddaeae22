// Column generation: the linear program over all patterns there are, and whole packs from it.
//
// Flow: a pool of patterns from cheaper planners; the program over the pool; with its duals as
// values, the patterns that are worth most (pattern_pricing.h) join the pool, until none is worth
// more than a pack (Gilmore and Gomory 1961, 1963). The duals in whole numbers give a lower bound
// that is exact whatever the rounding errors. Then whole packs: as many of each pattern as the
// program uses, rounded down; one more of that which is nearest to one; solve again for the rest.
#ifndef PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_COLUMN_GENERATION_H_
#define PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_COLUMN_GENERATION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/base/vector_level.h"
#include "service/planning/packing_problem.h"
#include "service/planning/plan.h"
#include "service/planning/work_budget.h"

namespace packhouse {

// At most what its tables take, of all items squared and of all rooms that a pack can have, where
// SuitsColumnGeneration; but for patterns.
uint64_t ColumnGenerationBytes(uint64_t num_items);

// Whether its tables, of all items squared and of all rooms that a pack can have, are small enough,
// and it is likely to be done in so many steps.
bool SuitsColumnGeneration(const PackingProblem& problem, uint64_t steps);

struct ColumnGenerationResult {
  // No plan has fewer packs. At least what was known.
  uint64_t lower_bound = 0;
  // Uses up all items; empty if the budget ended before.
  std::vector<Pattern> patterns;
  uint64_t packs = 0;
};

struct ColumnGenerationOptions {
  // A bound that is known: the search ends when it is met.
  uint64_t lower_bound = 0;
  uint64_t seed = 0;
  VectorLevel vector_level = BestVectorLevel();
};

// `pool`: patterns to start from, entries ascending. Requires SuitsColumnGeneration, and that no
// item is of size 0 in all components. Deterministic; thread-safe.
ColumnGenerationResult PlanByColumnGeneration(const PackingProblem& problem,
                                              absl::Span<const Pattern> pool,
                                              const ColumnGenerationOptions& options,
                                              WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_COLUMN_GENERATION_H_
