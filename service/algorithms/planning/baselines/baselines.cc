#include "service/algorithms/planning/baselines/baselines.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/baselines/merged_sizes.h"
#include "service/algorithms/planning/baselines/priority.h"
#include "service/algorithms/planning/baselines/tuple_packing.h"
#include "service/base/status_macros.h"

namespace packhouse {

PackingPlan PlanWithoutPacking(const SizeHistogram& histogram) {
  PlanItems items = ItemsOf(histogram);
  PackingPlan plan = std::move(items.empty_plan);
  for (uint32_t row = 0; row < items.counts.size(); ++row) {
    plan.patterns.push_back({{{row, 1}}, items.counts[row]});
  }
  return plan;
}

absl::StatusOr<PackingPlan> PlanBySingleComponent(const SizeHistogram& histogram,
                                                  const Limits& limits, size_t component,
                                                  WorkBudget& budget) {
  if (component >= limits.num_components()) {
    return absl::InvalidArgumentError(
        absl::StrCat("single-component packing: there is no component number ", component));
  }
  std::vector<uint64_t> capacities(limits.num_components() + 1, kUnlimited);
  capacities[component] = limits.capacity(component);
  capacities.back() = limits.graphs();
  PH_ASSIGN_OR_RETURN(const Limits lifted, Limits::Create(std::move(capacities)));
  return PlanMerged(histogram, lifted, budget, [&](const SizeHistogram& merged) {
    return PlanByTuplePacking(merged, lifted, {PriorityKind::kComponent, component, {}},
                              PlacementRule::kBestFit, budget);
  });
}

}  // namespace packhouse
