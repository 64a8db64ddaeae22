#include "service/server/services/job_place.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse::rpc {
namespace {

constexpr char kOwnerMetadata[] = "packhouse-owner";

// gRPC's own: its clients would ask this server some times more before they look at the owner.
constexpr char kNoRetryHere[] = "grpc-retry-pushback-ms";

}  // namespace

absl::StatusOr<std::shared_ptr<Job>> OpenJob(Jobs& jobs, const std::string& job,
                                             CallHeaders& headers) {
  PH_RETURN_IF_ERROR(CheckJobName(job));
  PH_ASSIGN_OR_RETURN(Jobs::Place place, jobs.Open(job));
  if (place.job != nullptr) return std::move(place.job);
  headers.AddTrailing(kOwnerMetadata, place.owner.address);
  headers.AddTrailing(kNoRetryHere, "-1");
  return absl::UnavailableError(
      absl::StrCat("job ", Quoted(job), " is with the server at ", place.owner.address));
}

}  // namespace packhouse::rpc
