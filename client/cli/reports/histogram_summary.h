// Sums up a histogram of sizes.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_HISTOGRAM_SUMMARY_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_HISTOGRAM_SUMMARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "packhouse/v1/sizes.pb.h"

namespace packhouse::client {

// Total, mean and maximum of each component, as a table.
//
// Errors: INTERNAL if the server left totals or maxima out.
absl::StatusOr<std::string> HistogramSummary(const v1::Histogram& histogram);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_HISTOGRAM_SUMMARY_H_
