#include "service/server/wire/wire_heuristics.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::StatusOr<size_t> ComponentFromWire(const std::string& name, const SizeSchema& schema) {
  const std::optional<size_t> k = schema.IndexOf(name);
  if (k && *k < schema.num_components()) return *k;
  return absl::InvalidArgumentError(
      absl::StrCat("heuristic: priority.component: unknown component '",
                   absl::CHexEscape(name.substr(0, 64)), "'"));
}

absl::StatusOr<Priority> PriorityFromWire(const v1::Priority& wire, const SizeSchema& schema) {
  Priority priority;
  priority.weights.assign(wire.weights().begin(), wire.weights().end());
  switch (wire.kind()) {
    case v1::PRIORITY_KIND_PRODUCT:
      priority.kind = PriorityKind::kProduct;
      return priority;
    case v1::PRIORITY_KIND_SUM:
      priority.kind = PriorityKind::kSum;
      return priority;
    case v1::PRIORITY_KIND_MAX:
      priority.kind = PriorityKind::kMax;
      return priority;
    case v1::PRIORITY_KIND_MIN:
      priority.kind = PriorityKind::kMin;
      return priority;
    case v1::PRIORITY_KIND_COMPONENT: {
      priority.kind = PriorityKind::kComponent;
      PH_ASSIGN_OR_RETURN(priority.component, ComponentFromWire(wire.component(), schema));
      return priority;
    }
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("heuristic: priority.kind: unknown value ", static_cast<int>(wire.kind())));
  }
}

absl::StatusOr<PlanHeuristic> HeuristicFromWire(const v1::PlanHeuristic& wire,
                                                const SizeSchema& schema) {
  PlanHeuristic heuristic;
  switch (wire.algorithm()) {
    case v1::PLAN_ALGORITHM_UNSPECIFIED:
    case v1::PLAN_ALGORITHM_TUPLE_PACKING:
      heuristic.algorithm = PlanAlgorithm::kTuplePacking;
      break;
    case v1::PLAN_ALGORITHM_NOTEBOOK:
      heuristic.algorithm = PlanAlgorithm::kNotebook;
      break;
    case v1::PLAN_ALGORITHM_NO_PACKING:
      heuristic.algorithm = PlanAlgorithm::kNoPacking;
      return heuristic;
    case v1::PLAN_ALGORITHM_SINGLE_COMPONENT: {
      heuristic.algorithm = PlanAlgorithm::kSingleComponent;
      heuristic.priority.kind = PriorityKind::kComponent;
      PH_ASSIGN_OR_RETURN(heuristic.priority.component,
                          ComponentFromWire(wire.priority().component(), schema));
      return heuristic;
    }
    case v1::PLAN_ALGORITHM_OPTIMIZED:
      heuristic.algorithm = PlanAlgorithm::kOptimized;
      return heuristic;
    case v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING:
      heuristic.algorithm = PlanAlgorithm::kFirstFitDecreasing;
      return heuristic;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("heuristic: algorithm: unknown value ", static_cast<int>(wire.algorithm())));
  }
  PH_ASSIGN_OR_RETURN(heuristic.priority, PriorityFromWire(wire.priority(), schema));
  switch (wire.opening()) {
    case v1::OPENING_RULE_UNSPECIFIED:
    case v1::OPENING_RULE_ONE_GRAPH:
      break;
    case v1::OPENING_RULE_FILL:
      heuristic.opening = OpeningRule::kFill;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("heuristic: opening: unknown value ", static_cast<int>(wire.opening())));
  }
  switch (wire.placement()) {
    case v1::PLACEMENT_RULE_UNSPECIFIED:
    case v1::PLACEMENT_RULE_BEST_FIT:
      break;
    case v1::PLACEMENT_RULE_FIRST_FIT:
      heuristic.placement = PlacementRule::kFirstFit;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("heuristic: placement: unknown value ", static_cast<int>(wire.placement())));
  }
  return heuristic;
}

// Algorithms without parameters: a second run would only repeat the first.
bool RunsOnce(const PlanHeuristic& heuristic) {
  return heuristic.algorithm == PlanAlgorithm::kOptimized ||
         heuristic.algorithm == PlanAlgorithm::kFirstFitDecreasing;
}

}  // namespace

absl::StatusOr<std::vector<PlanHeuristic>> HeuristicsFromWire(const v1::PlanRequest& request,
                                                              const Limits& limits,
                                                              const SizeSchema& schema) {
  if (request.heuristics_size() > kMaxHeuristics) {
    return absl::InvalidArgumentError(
        absl::StrCat("heuristics: ", request.heuristics_size(), ", at most ", kMaxHeuristics));
  }
  std::vector<PlanHeuristic> heuristics;
  const auto is_listed = [&](const PlanHeuristic& heuristic) {
    return std::find(heuristics.begin(), heuristics.end(), heuristic) != heuristics.end();
  };
  for (const v1::PlanHeuristic& wire : request.heuristics()) {
    PH_ASSIGN_OR_RETURN(PlanHeuristic heuristic, HeuristicFromWire(wire, schema));
    if (RunsOnce(heuristic) && is_listed(heuristic)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "heuristics: ", v1::PlanAlgorithm_Name(wire.algorithm()), " is listed twice"));
    }
    heuristics.push_back(std::move(heuristic));
  }
  if (heuristics.empty()) heuristics = DefaultHeuristics();
  const auto append = [&](const std::vector<PlanHeuristic>& more) {
    heuristics.insert(heuristics.end(), more.begin(), more.end());
  };
  if (request.include_tuple_packing()) {
    PlanHeuristic first_fit_decreasing;
    first_fit_decreasing.algorithm = PlanAlgorithm::kFirstFitDecreasing;
    if (!is_listed(first_fit_decreasing)) append({first_fit_decreasing});
    append(TuplePackingHeuristics(limits));
  }
  if (request.include_notebook()) append(NotebookHeuristics(limits));
  if (request.include_baselines()) append(BaselineHeuristics(limits));
  return heuristics;
}

void HeuristicToWire(const PlanHeuristic& heuristic, const SizeSchema& schema,
                     v1::PlanHeuristic& wire) {
  switch (heuristic.algorithm) {
    case PlanAlgorithm::kTuplePacking:
      wire.set_algorithm(v1::PLAN_ALGORITHM_TUPLE_PACKING);
      wire.set_placement(heuristic.placement == PlacementRule::kBestFit
                             ? v1::PLACEMENT_RULE_BEST_FIT
                             : v1::PLACEMENT_RULE_FIRST_FIT);
      wire.set_opening(heuristic.opening == OpeningRule::kOneGraph ? v1::OPENING_RULE_ONE_GRAPH
                                                                   : v1::OPENING_RULE_FILL);
      break;
    case PlanAlgorithm::kNotebook:
      wire.set_algorithm(v1::PLAN_ALGORITHM_NOTEBOOK);
      break;
    case PlanAlgorithm::kNoPacking:
      wire.set_algorithm(v1::PLAN_ALGORITHM_NO_PACKING);
      return;
    case PlanAlgorithm::kSingleComponent:
      wire.set_algorithm(v1::PLAN_ALGORITHM_SINGLE_COMPONENT);
      break;
    case PlanAlgorithm::kOptimized:
      wire.set_algorithm(v1::PLAN_ALGORITHM_OPTIMIZED);
      return;
    case PlanAlgorithm::kFirstFitDecreasing:
      wire.set_algorithm(v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING);
      return;
  }
  v1::Priority& priority = *wire.mutable_priority();
  switch (heuristic.priority.kind) {
    case PriorityKind::kProduct:
      priority.set_kind(v1::PRIORITY_KIND_PRODUCT);
      break;
    case PriorityKind::kSum:
      priority.set_kind(v1::PRIORITY_KIND_SUM);
      break;
    case PriorityKind::kMax:
      priority.set_kind(v1::PRIORITY_KIND_MAX);
      break;
    case PriorityKind::kMin:
      priority.set_kind(v1::PRIORITY_KIND_MIN);
      break;
    case PriorityKind::kComponent:
      priority.set_kind(v1::PRIORITY_KIND_COMPONENT);
      priority.set_component(std::string(schema.name(heuristic.priority.component)));
      break;
  }
  for (const uint32_t weight : heuristic.priority.weights) priority.add_weights(weight);
}

}  // namespace packhouse
