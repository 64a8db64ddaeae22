// Plans in files, so that a later plan can start from an earlier one.
//
// A file is a serialized packhouse.v1.PlanResponse with `best` and `plan`: any language with the
// protos can read it.
#ifndef PACKHOUSE_CLIENT_CLI_FILES_PLAN_FILE_H_
#define PACKHOUSE_CLIENT_CLI_FILES_PLAN_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "packhouse/v1/planning.pb.h"

namespace packhouse::client {

// Errors: UNAVAILABLE naming the file if it cannot be written.
absl::Status WritePlanFile(const std::string& path, const v1::PlanResponse& response);

// Reads the plan of a file that WritePlanFile wrote, for sizes with the same components in the same
// order.
//
// Errors: NOT_FOUND if it cannot be opened; INVALID_ARGUMENT naming the file if it is no plan, or a
// plan of other components.
absl::StatusOr<v1::PackingPlan> ReadPlanFile(const std::string& path,
                                             const std::vector<std::string>& components);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_FILES_PLAN_FILE_H_
