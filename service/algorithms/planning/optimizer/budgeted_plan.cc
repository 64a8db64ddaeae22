#include "service/algorithms/planning/optimizer/budgeted_plan.h"

#include <algorithm>

namespace packhouse {
namespace {

constexpr uint64_t kLeastSteps = 10'000;
constexpr uint64_t kStepsPerTuple = 350;

}  // namespace

uint64_t LeastPlanSteps(const SizeHistogram& histogram) {
  return kLeastSteps + kStepsPerTuple * histogram.num_distinct();
}

absl::StatusOr<CertifiedPlan> PlanWithinBudget(const SizeHistogram& histogram, const Limits& limits,
                                               OptimizerOptions options, WorkBudget& budget) {
  options.steps = std::min(options.steps, budget.remaining());
  absl::StatusOr<CertifiedPlan> plan = OptimizePlan(histogram, limits, options);
  if (!plan.ok()) return plan;
  // If fewer steps are left, this uses up all of them.
  budget.Spend(plan->steps + LeastPlanSteps(histogram));
  if (budget.cancelled()) return budget.Refusal();
  return plan;
}

}  // namespace packhouse
