#include "service/algorithms/planning/baselines/planner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/baselines/baselines.h"
#include "service/algorithms/planning/baselines/merged_sizes.h"
#include "service/algorithms/planning/baselines/notebook_packing.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// The components (without `graphs`) that have a limit.
std::vector<size_t> LimitedComponents(const Limits& limits) {
  std::vector<size_t> limited;
  for (size_t k = 0; k < limits.num_components(); ++k) {
    if (limits.has_limit(k)) limited.push_back(k);
  }
  return limited;
}

// Weights that make sizes comparable as shares of their capacities; empty if they make no
// difference.
std::vector<uint32_t> WeightsByCapacity(const Limits& limits, absl::Span<const size_t> limited) {
  uint64_t largest = 0;
  for (const size_t k : limited) largest = std::max(largest, limits.capacity(k));
  bool all_equal = true;
  std::vector<uint32_t> weights(limits.num_components(), 1);
  for (const size_t k : limited) {
    // In 1/16 of the largest capacity's weight.
    const PriorityValue weight = PriorityValue{largest} * 16 / limits.capacity(k);
    weights[k] = static_cast<uint32_t>(std::min<PriorityValue>(weight, UINT32_MAX));
    all_equal &= weights[k] == weights[limited.front()];
  }
  return all_equal ? std::vector<uint32_t>() : weights;
}

std::vector<Priority> PlainPriorities(absl::Span<const size_t> limited) {
  std::vector<Priority> priorities;
  for (const PriorityKind kind :
       {PriorityKind::kProduct, PriorityKind::kSum, PriorityKind::kMax, PriorityKind::kMin}) {
    priorities.push_back({kind, 0, {}});
  }
  for (const size_t k : limited) priorities.push_back({PriorityKind::kComponent, k, {}});
  return priorities;
}

// Plans by one heuristic, and sets the fields of `outcome` that only it knows.
absl::StatusOr<PackingPlan> Run(const SizeHistogram& histogram, const Limits& limits,
                                const ComparisonOptions& options, PlanOutcome& outcome) {
  const PlanHeuristic& heuristic = outcome.heuristic;
  WorkBudget budget(options.heuristic_steps, options.optimizer.is_cancelled,
                    options.optimizer.memory);
  switch (heuristic.algorithm) {
    case PlanAlgorithm::kTuplePacking:
      return PlanMerged(histogram, limits, budget, [&](const SizeHistogram& merged) {
        return PlanByTuplePacking(merged, limits, heuristic.priority, heuristic.placement, budget,
                                  heuristic.opening);
      });
    case PlanAlgorithm::kNotebook:
      return PlanByNotebook(histogram, limits, heuristic.priority, budget);
    case PlanAlgorithm::kNoPacking:
      return PlanWithoutPacking(histogram);
    case PlanAlgorithm::kSingleComponent:
      return PlanBySingleComponent(histogram, limits, heuristic.priority.component, budget);
    case PlanAlgorithm::kOptimized: {
      PH_ASSIGN_OR_RETURN(CertifiedPlan certified,
                          OptimizePlan(histogram, limits, options.optimizer));
      outcome.bound = certified.bound;
      outcome.winner = certified.method;
      outcome.steps = certified.steps;
      outcome.receipt = PlanReceipt(histogram, limits, options.optimizer);
      return std::move(certified.plan);
    }
    case PlanAlgorithm::kFirstFitDecreasing: {
      OptimizerOptions no_steps = options.optimizer;
      no_steps.steps = 0;
      no_steps.warm_start = nullptr;
      PH_ASSIGN_OR_RETURN(CertifiedPlan certified, OptimizePlan(histogram, limits, no_steps));
      outcome.bound = certified.bound;
      return std::move(certified.plan);
    }
  }
  return absl::InternalError("plan: unknown algorithm");
}

// Measures all outcomes by one bound.
void Certify(const LowerBound& bound, PlanComparison& comparison) {
  for (PlanOutcome& outcome : comparison.outcomes) {
    if (!outcome.finished) continue;
    PlanQuality& quality = outcome.quality;
    outcome.bound = bound;
    outcome.optimal = outcome.keeps_limits && quality.packs == bound.packs;
    quality.lower_bound = bound.packs;
    quality.bounding_component = bound.component;
    if (bound.packs == 0) continue;
    quality.gap = static_cast<double>(quality.packs) / static_cast<double>(bound.packs) - 1.0;
  }
}

bool KeepsLimits(const PlanHeuristic& heuristic) {
  return heuristic.algorithm != PlanAlgorithm::kSingleComponent;
}

}  // namespace

std::string HeuristicName(const PlanHeuristic& heuristic, const SizeSchema& schema) {
  const std::string priority = PriorityName(heuristic.priority, schema);
  switch (heuristic.algorithm) {
    case PlanAlgorithm::kTuplePacking:
      return absl::StrCat(
          heuristic.opening == OpeningRule::kFill ? "filling " : "",
          heuristic.placement == PlacementRule::kBestFit ? "best-fit " : "first-fit ", priority);
    case PlanAlgorithm::kNotebook:
      return absl::StrCat("notebook ", priority);
    case PlanAlgorithm::kNoPacking:
      return "no packing";
    case PlanAlgorithm::kSingleComponent:
      return absl::StrCat(priority, " alone");
    case PlanAlgorithm::kOptimized:
      return "optimized";
    case PlanAlgorithm::kFirstFitDecreasing:
      return "first-fit decreasing";
  }
  return "unknown";
}

std::vector<PlanHeuristic> DefaultHeuristics() {
  return {{PlanAlgorithm::kOptimized, {}, PlacementRule::kBestFit, OpeningRule::kOneGraph}};
}

std::vector<PlanHeuristic> TuplePackingHeuristics(const Limits& limits) {
  const std::vector<size_t> limited = LimitedComponents(limits);
  std::vector<Priority> priorities = PlainPriorities(limited);
  if (const std::vector<uint32_t> weights = WeightsByCapacity(limits, limited); !weights.empty()) {
    priorities.push_back({PriorityKind::kSum, 0, weights});
    priorities.push_back({PriorityKind::kMax, 0, weights});
  }
  std::vector<PlanHeuristic> heuristics;
  for (const OpeningRule opening : {OpeningRule::kOneGraph, OpeningRule::kFill}) {
    for (const PlacementRule placement : {PlacementRule::kBestFit, PlacementRule::kFirstFit}) {
      for (const Priority& priority : priorities) {
        heuristics.push_back({PlanAlgorithm::kTuplePacking, priority, placement, opening});
      }
    }
  }
  return heuristics;
}

std::vector<PlanHeuristic> BaselineHeuristics(const Limits& limits) {
  std::vector<PlanHeuristic> heuristics = {
      {PlanAlgorithm::kNoPacking, {}, PlacementRule::kBestFit, OpeningRule::kOneGraph}};
  for (const size_t k : LimitedComponents(limits)) {
    heuristics.push_back({PlanAlgorithm::kSingleComponent,
                          {PriorityKind::kComponent, k, {}},
                          PlacementRule::kBestFit,
                          OpeningRule::kOneGraph});
  }
  return heuristics;
}

std::vector<PlanHeuristic> NotebookHeuristics(const Limits& limits) {
  const std::vector<size_t> limited = LimitedComponents(limits);
  std::vector<PlanHeuristic> heuristics;
  if (limited.size() != limits.num_components()) return heuristics;
  for (const Priority& priority : PlainPriorities(limited)) {
    heuristics.push_back(
        {PlanAlgorithm::kNotebook, priority, PlacementRule::kBestFit, OpeningRule::kOneGraph});
  }
  return heuristics;
}

absl::StatusOr<PlanComparison> ComparePlans(const SizeHistogram& histogram, const Limits& limits,
                                            const SizeSchema& schema,
                                            absl::Span<const PlanHeuristic> heuristics,
                                            const ComparisonOptions& options) {
  if (std::none_of(heuristics.begin(), heuristics.end(), KeepsLimits)) {
    return absl::InvalidArgumentError(
        "plan: no heuristic that keeps all limits is among those to try");
  }
  PH_RETURN_IF_ERROR(CheckEachGraphFits(histogram, limits, schema));
  PlanComparison comparison;
  LowerBound bound = ComputeVolumeBound(histogram, limits);
  std::optional<uint64_t> best_packs;
  for (size_t i = 0; i < heuristics.size(); ++i) {
    if (options.optimizer.is_cancelled && options.optimizer.is_cancelled()) {
      return absl::CancelledError("plan: given up by the caller");
    }
    // One that runs out of steps is told as unfinished; the others go on.
    PlanOutcome outcome;
    outcome.heuristic = heuristics[i];
    absl::StatusOr<PackingPlan> plan = Run(histogram, limits, options, outcome);
    if (!plan.ok() && !absl::IsResourceExhausted(plan.status())) return plan.status();
    if (plan.ok()) {
      outcome.finished = true;
      outcome.keeps_limits = KeepsLimits(heuristics[i]);
      outcome.quality = MeasurePlan(*plan, histogram, limits);
      outcome.num_patterns = plan->patterns.size();
      if (outcome.keeps_limits) PH_RETURN_IF_ERROR(VerifyPlan(*plan, histogram, limits));
      if (outcome.bound.packs > bound.packs) bound = outcome.bound;
      if (outcome.keeps_limits && (!best_packs || outcome.quality.packs < *best_packs)) {
        best_packs = outcome.quality.packs;
        comparison.best = i;
        comparison.best_plan = *std::move(plan);
      }
    }
    comparison.outcomes.push_back(std::move(outcome));
    if (options.finished) options.finished(i);
  }
  if (!best_packs) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "plan: none of ", heuristics.size(), " heuristics finished within ",
        options.heuristic_steps, " steps on ", histogram.num_distinct(), " distinct sizes"));
  }
  Certify(bound, comparison);
  return comparison;
}

}  // namespace packhouse
