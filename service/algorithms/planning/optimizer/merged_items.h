// Sizes that differ only where no limit can bind are one size to a planner.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_MERGED_ITEMS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_MERGED_ITEMS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// The items of a problem, those of equal sizes as one. Ragged features make nearly every tuple
// unique, while a few components have limits: planning with the merged items takes as long as for
// those components alone, and gives as many packs. Immutable; thread-safe.
class MergedItems {
 public:
  // O(n m log n); 12 bytes for each item besides the merged problem.
  explicit MergedItems(const PackingProblem& problem);

  // Its items ascend by their sizes. Its plan has for each item the tuple of one that it stands
  // for.
  const PackingProblem& problem() const { return merged_; }
  // The number there of an item of the original problem.
  uint32_t merged(size_t item) const { return merged_of_[item]; }

  // The patterns of a plan for problem(), or for fewer graphs of its items, with items of the
  // original instead: those of a merged item take its places in ascending order, as often as each
  // counts. As many packs; a pattern becomes several where its items run out. An item is in a
  // pattern once. nullopt if `budget` refuses the memory of the result, if the caller gave up, or
  // if the patterns have more graphs than there are. O(entries of the result).
  std::optional<std::vector<Pattern>> Expand(absl::Span<const Pattern> patterns,
                                             WorkBudget& budget) const;

 private:
  MergedItems(const PackingProblem& problem, std::vector<uint32_t> ascending);

  std::vector<uint32_t> ascending_;  // The original items, by sizes, then by number.
  std::vector<uint32_t> starts_;     // In ascending_, by merged item, and their end.
  std::vector<uint32_t> merged_of_;
  std::vector<uint64_t> counts_;  // Of the original items.
  PackingProblem merged_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_MERGED_ITEMS_H_
