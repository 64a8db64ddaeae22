// The output of `packhouse tune`: the recommendation with its reasons, and the frontier; or JSON.
//
// Pure functions of the server's answer; texts end in a newline unless they are parts of a line.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_TUNE_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_TUNE_REPORT_H_

#include <string>
#include <vector>

#include "client/cli/tune_stream.h"
#include "packhouse/v1/planning.pb.h"
#include "service/command_line/json.h"

namespace packhouse::client {

// `nodes=353, edges=756`: the existing capacities.
std::string ShapeText(const v1::TunedShape& shape);

// The cost of padding relative to that of real rows: epoch_cost / least_cost - 1; 0 if nothing has
// a cost.
double PaddingOverhead(double epoch_cost, double least_cost);

// One line for a terminal, without its newline: the progress of the search, and the best so far.
std::string ProgressLine(const v1::TuneProgress& progress);

// The chosen limits, their cost, how certain they are, the gain over one shape, the graphs that are
// left out with the options that would take them; then a table of the shapes, and the reasons.
// `profile` is that of the request, `components` are the histogram's.
std::string RecommendationText(const TuneOutcome& outcome, const v1::DeviceProfile& profile,
                               const std::vector<std::string>& components);

// The frontier as a table. Empty if there is none.
std::string FrontierTable(const TuneOutcome& outcome);

// The points of the frontier that FrontierTable shows: all if there are few; otherwise the first,
// the last, and those whose padding is smaller by some factor than that of the previous one shown.
std::vector<v1::TunedShape> FrontierSteps(const std::vector<v1::TunedShape>& frontier,
                                          double least_cost);

// Everything except the cells as one JSON object; ratios are in [0, 1].
Json TuneJson(const TuneOutcome& outcome, const std::vector<std::string>& components);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_TUNE_REPORT_H_
