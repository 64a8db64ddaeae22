// The output of `packhouse jobs`.
//
// Pure functions of the server's answers; texts end in a newline.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_JOB_REPORT_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_JOB_REPORT_H_

#include <string>
#include <vector>

#include "packhouse/v1/loader.pb.h"
#include "service/command_line/json.h"

namespace packhouse::client {

// One row for each job: name, epochs, finished epochs, streams now, last use.
std::string JobTable(const std::vector<v1::Job>& jobs);

// One job, a row for each epoch.
std::string JobText(const v1::Job& job);

// As a JSON object. Times are in UTC, as "2026-03-01T12:00:00Z"; null if unknown.
Json JobJson(const v1::Job& job);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_JOB_REPORT_H_
