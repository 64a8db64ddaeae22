#include "client/cli/commands/plan_comparison.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"

namespace packhouse::client {
namespace {

struct NamedPriority {
  std::string name;
  v1::Priority priority;
};

// The priorities of the paper that suit the limits.
class Priorities {
 public:
  Priorities(const v1::Limits& limits, const std::vector<std::string>& components)
      : components_(components), capacities_(CapacitiesOf(limits, components)) {
    for (std::size_t k = 0; k < components.size(); ++k) {
      if (capacities_[k] != 0) limited_.push_back(k);
    }
  }

  bool all_limited() const { return limited_.size() == components_.size(); }

  std::vector<NamedPriority> Single() const {
    std::vector<NamedPriority> single;
    for (const std::size_t k : limited_) {
      NamedPriority& added = single.emplace_back(Of(components_[k], v1::PRIORITY_KIND_COMPONENT));
      added.priority.set_component(components_[k]);
    }
    return single;
  }

  std::vector<NamedPriority> Plain() const {
    std::vector<NamedPriority> plain = {
        Of("product", v1::PRIORITY_KIND_PRODUCT), Of("sum", v1::PRIORITY_KIND_SUM),
        Of("max", v1::PRIORITY_KIND_MAX), Of("min", v1::PRIORITY_KIND_MIN)};
    for (NamedPriority& one : Single()) plain.push_back(std::move(one));
    return plain;
  }

  // Of sizes relative to their capacities; none if that makes no difference.
  std::vector<NamedPriority> Weighted() const {
    uint64_t largest = 0;
    for (const std::size_t k : limited_) largest = std::max(largest, capacities_[k]);
    std::vector<uint32_t> weights(components_.size(), 1);
    bool all_equal = true;
    for (const std::size_t k : limited_) {
      // In 1/16 of the largest capacity's weight.
      const double weight =
          16.0 * static_cast<double>(largest) / static_cast<double>(capacities_[k]);
      weights[k] = static_cast<uint32_t>(std::min(weight, 4294967295.0));
      all_equal = all_equal && weights[k] == weights[limited_.front()];
    }
    if (all_equal) return {};
    std::vector<NamedPriority> weighted;
    for (NamedPriority one : {Of("sum", v1::PRIORITY_KIND_SUM), Of("max", v1::PRIORITY_KIND_MAX)}) {
      absl::StrAppend(&one.name, " weighted ", absl::StrJoin(weights, ","));
      for (const uint32_t weight : weights) one.priority.add_weights(weight);
      weighted.push_back(std::move(one));
    }
    return weighted;
  }

 private:
  static NamedPriority Of(const std::string& name, v1::PriorityKind kind) {
    NamedPriority named = {name, {}};
    named.priority.set_kind(kind);
    return named;
  }

  const std::vector<std::string>& components_;
  const std::vector<uint64_t> capacities_;
  std::vector<std::size_t> limited_;
};

v1::PlanSummary& AddSummary(const std::string& name, v1::PlanAlgorithm algorithm,
                            std::vector<v1::PlanSummary>& summaries) {
  v1::PlanSummary& summary = summaries.emplace_back();
  summary.set_name(name);
  summary.mutable_heuristic()->set_algorithm(algorithm);
  summary.set_unfinished(true);
  return summary;
}

// A planner that did not end is no error.
bool HasNotEnded(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

}  // namespace

std::vector<v1::PlanSummary> SummariesToFill(const v1::Limits& limits,
                                             const std::vector<std::string>& components,
                                             const ComparedPlanners& planners) {
  const Priorities priorities(limits, components);
  std::vector<v1::PlanSummary> summaries;
  if (planners.tuple_packing) {
    AddSummary("first-fit decreasing", v1::PLAN_ALGORITHM_FIRST_FIT_DECREASING, summaries);
  }
  if (planners.baselines) {
    AddSummary("no packing", v1::PLAN_ALGORITHM_NO_PACKING, summaries);
    for (const auto& [name, priority] : priorities.Single()) {
      *AddSummary(absl::StrCat(name, " alone"), v1::PLAN_ALGORITHM_SINGLE_COMPONENT, summaries)
           .mutable_heuristic()
           ->mutable_priority() = priority;
    }
  }
  if (planners.tuple_packing) {
    std::vector<NamedPriority> all = priorities.Plain();
    for (NamedPriority& one : priorities.Weighted()) all.push_back(std::move(one));
    for (const v1::OpeningRule opening : {v1::OPENING_RULE_ONE_GRAPH, v1::OPENING_RULE_FILL}) {
      for (const v1::PlacementRule placement :
           {v1::PLACEMENT_RULE_BEST_FIT, v1::PLACEMENT_RULE_FIRST_FIT}) {
        for (const auto& [name, priority] : all) {
          v1::PlanHeuristic& heuristic =
              *AddSummary(
                   absl::StrCat(
                       opening == v1::OPENING_RULE_FILL ? "filling " : "",
                       placement == v1::PLACEMENT_RULE_BEST_FIT ? "best-fit " : "first-fit ", name),
                   v1::PLAN_ALGORITHM_TUPLE_PACKING, summaries)
                   .mutable_heuristic();
          *heuristic.mutable_priority() = priority;
          heuristic.set_placement(placement);
          heuristic.set_opening(opening);
        }
      }
    }
  }
  if (planners.notebook && priorities.all_limited()) {
    for (const auto& [name, priority] : priorities.Plain()) {
      *AddSummary(absl::StrCat("notebook ", name), v1::PLAN_ALGORITHM_NOTEBOOK, summaries)
           .mutable_heuristic()
           ->mutable_priority() = priority;
    }
  }
  return summaries;
}

absl::Status FillSummaries(v1::PlanningService::Stub& stub, v1::PlanRequest request,
                           const v1::PlanSummary& best,
                           std::chrono::system_clock::time_point deadline,
                           absl::FunctionRef<void(const v1::PlanSummary&)> shown,
                           std::vector<v1::PlanSummary>& summaries) {
  request.set_include_tuple_packing(false);
  request.set_include_notebook(false);
  request.set_include_baselines(false);
  request.set_summaries_only(true);
  request.clear_warm_start();
  for (v1::PlanSummary& summary : summaries) {
    if (std::chrono::system_clock::now() >= deadline) break;
    request.clear_heuristics();
    // A list needs a planner that keeps the limits.
    if (summary.heuristic().algorithm() == v1::PLAN_ALGORITHM_SINGLE_COMPONENT) {
      request.add_heuristics()->set_algorithm(v1::PLAN_ALGORITHM_NO_PACKING);
    }
    *request.add_heuristics() = summary.heuristic();
    grpc::ClientContext context;
    context.set_deadline(std::min(deadline, CallDeadline()));
    v1::PlanResponse response;
    const grpc::Status status = stub.Plan(&context, request, &response);
    if (!status.ok() && !HasNotEnded(status)) return ToAbslStatus(status);
    if (status.ok() && !response.summaries().empty()) {
      summary = response.summaries(response.summaries_size() - 1);
    }
    if (!summary.unfinished()) {
      summary.set_lower_bound(best.lower_bound());
      summary.set_lower_bound_name(best.lower_bound_name());
      summary.set_lower_bound_kind(best.lower_bound_kind());
      summary.set_optimal(summary.keeps_limits() && summary.packs() == best.lower_bound());
      if (best.lower_bound() != 0) {
        summary.set_gap(
            static_cast<double>(summary.packs()) / static_cast<double>(best.lower_bound()) - 1);
      }
    }
    shown(summary);
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
