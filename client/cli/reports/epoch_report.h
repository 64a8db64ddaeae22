// The output of `packhouse epoch`. Pure functions of the server's answer; texts end in a newline.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_EPOCH_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_EPOCH_REPORT_H_

#include <string>

#include "packhouse/v1/loader.pb.h"
#include "service/command_line/json.h"

namespace packhouse::client {

// Batches, their bound, shapes and efficiencies, segments and what they cost.
std::string EpochText(const v1::Epoch& epoch);
// The same as one JSON object. `segments` is null for an epoch that is planned as a whole, and
// `lower_bound` if none is known.
Json EpochJson(const v1::Epoch& epoch);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_EPOCH_REPORT_H_
