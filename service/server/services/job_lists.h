// Pages of jobs, without those that the caller may not see.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_LISTS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_LISTS_H_

#include "absl/status/statusor.h"
#include "packhouse/v1/loader.pb.h"
#include "service/engine/jobs/jobs.h"
#include "service/server/calls/call_context.h"

namespace packhouse {

// The first page after the token that shows something to the caller (Jobs::List()). Its token names
// something that it may see, too.
absl::StatusOr<v1::ListJobsResponse> PageOfJobs(const v1::ListJobsRequest& request,
                                                const CallContext& context, const Jobs& jobs);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_LISTS_H_
