// The output of `packhouse plan`: the best plan's certificate, all summaries, patterns; or JSON.
//
// Pure functions of the server's answer; texts end in a newline.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_PLAN_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_PLAN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/json.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// Packs, the lower bound, efficiency, the planner that found the plan and its steps, and the
// receipt.
std::string PlanCertificate(const v1::PlanSummary& best);

// One row for each summary: the planners, the paper's heuristics, the notebook's, the baselines.
// The best has a star.
std::string SummaryTable(const v1::PlanResponse& response);

// The plan's first `count` patterns. `components` are the histogram's, in order.
std::string PatternList(const v1::PlanResponse& response,
                        const std::vector<std::string>& components, uint64_t count);

// The same as one JSON object: `best`, `summaries` and, unless `count` is 0, `patterns`. Ratios are
// in [0, 1], times in seconds.
Json PlanJson(const v1::PlanResponse& response, const std::vector<std::string>& components,
              uint64_t count);

// The efficiencies of a plan or shape as a JSON array.
Json EfficienciesJson(
    const google::protobuf::RepeatedPtrField<v1::ComponentEfficiency>& components);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_PLAN_REPORT_H_
