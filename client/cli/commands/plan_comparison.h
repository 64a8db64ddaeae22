// The comparison of `packhouse plan`: the same histogram by other planners, one call for each, so
// that each row can be shown as soon as it is known.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_PLAN_COMPARISON_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_PLAN_COMPARISON_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// Which planners are compared.
struct ComparedPlanners {
  bool tuple_packing = true;  // And first-fit decreasing.
  bool notebook = true;
  bool baselines = true;
};

// A summary for each of them that suits the limits, with name and heuristic alone, as unfinished:
// first-fit decreasing, the baselines, the paper's heuristics, the notebook's. `components` are the
// histogram's.
std::vector<v1::PlanSummary> SummariesToFill(const v1::Limits& limits,
                                             const std::vector<std::string>& components,
                                             const ComparedPlanners& planners);

// Asks for each of `summaries` in turn until `deadline`, and fills it in, measured by the bound of
// `best`. A planner that does not end in time, or within its steps, stays unfinished; so do those
// after the deadline. `request` has the histogram, limits and padding. `shown` is called after each
// planner that was asked for.
//
// Errors: as Plan, except for those of planners that do not end.
absl::Status FillSummaries(v1::PlanningService::Stub& stub, v1::PlanRequest request,
                           const v1::PlanSummary& best,
                           std::chrono::system_clock::time_point deadline,
                           absl::FunctionRef<void(const v1::PlanSummary&)> shown,
                           std::vector<v1::PlanSummary>& summaries);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_PLAN_COMPARISON_H_
