// A job, for calls about one; or where the job is, if another server has it.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_PLACE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_PLACE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/engine/jobs/jobs.h"
#include "service/server/calls/call_headers.h"

namespace packhouse::rpc {

// For calls that only the owner of a job can answer; this server becomes the owner if nobody is:
// also by an acknowledgement, since all workers may be about to save their state, and load nothing.
// INVALID_ARGUMENT as CheckJobName(); errors as Jobs::Open(). UNAVAILABLE if another server has the
// job: the call's trailing metadata "packhouse-owner" then has its address.
absl::StatusOr<std::shared_ptr<Job>> OpenJob(Jobs& jobs, const std::string& job,
                                             CallHeaders& headers);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_PLACE_H_
