// The output of `packhouse plan`: the best plan's certificate, all summaries, patterns; or JSON.
//
// Pure functions of the server's answer; texts end in a newline.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_PLAN_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_PLAN_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "packhouse/v1/planning.pb.h"
#include "service/command_line/json.h"
#include "service/command_line/table.h"

namespace packhouse::client {

// Packs, the lower bound, efficiency, the planner that found the plan and its steps, and the
// receipt.
std::string PlanCertificate(const v1::PlanSummary& best);

// A comparison whose rows come one after the other. Not thread-safe.
class ComparisonTable {
 public:
  // `others` are the summaries that will follow, for the width of the first column.
  ComparisonTable(const v1::PlanSummary& best, const std::vector<v1::PlanSummary>& others);

  // The names of the columns and the row of `best`, with a star.
  std::string Head();
  // The next row, below the heading of its section if that is another one than before.
  std::string Row(const v1::PlanSummary& summary);

 private:
  const v1::PlanSummary best_;
  std::vector<TextTable::Column> columns_;
  int section_ = 0;
};

// What remains to be said when the comparison ends: which summaries have fewer packs than `best`
// and keep the limits; which are unfinished, and that `--compare all` finishes them if `all` is
// false.
std::string ComparisonEnd(const v1::PlanSummary& best,
                          const std::vector<v1::PlanSummary>& summaries, bool all);

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
