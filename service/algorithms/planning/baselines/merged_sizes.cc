#include "service/algorithms/planning/baselines/merged_sizes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "service/algorithms/planning/optimizer/merged_items.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<PackingPlan> PlanMerged(
    const SizeHistogram& histogram, const Limits& limits, WorkBudget& budget,
    absl::FunctionRef<absl::StatusOr<PackingPlan>(const SizeHistogram& merged)> planner) {
  const PackingProblem whole(histogram, limits);
  const MergedItems items(whole);
  const PackingProblem& merged = items.problem();
  if (merged.num_items() == histogram.num_distinct()) return planner(histogram);

  SizeHistogram few(histogram.num_components());
  for (size_t i = 0; i < merged.num_items(); ++i) {
    const auto tuple = merged.empty_plan().tuple(i);
    PH_RETURN_IF_ERROR(few.Add(SizeTuple(tuple.begin(), tuple.end()), merged.count(i)));
  }
  PH_ASSIGN_OR_RETURN(PackingPlan plan, planner(few));
  // A plan numbers its sizes in ascending order, the merged problem in another.
  std::vector<uint32_t> ascending(merged.num_items());
  std::iota(ascending.begin(), ascending.end(), 0);
  std::sort(ascending.begin(), ascending.end(), [&merged](uint32_t a, uint32_t b) {
    return merged.empty_plan().tuple(a) < merged.empty_plan().tuple(b);
  });
  for (Pattern& pattern : plan.patterns) {
    for (PatternEntry& entry : pattern.entries) entry.tuple = ascending[entry.tuple];
  }
  std::optional<std::vector<Pattern>> expanded = items.Expand(plan.patterns, budget);
  if (!expanded) {
    budget.GiveUp();
    return budget.Refusal();
  }
  plan = whole.empty_plan();
  plan.patterns = *std::move(expanded);
  return plan;
}

}  // namespace packhouse
