#include "service/server/services/job_place.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_loader.h"

namespace packhouse::rpc {
namespace {

constexpr char kOwnerMetadata[] = "packhouse-owner";

// gRPC's own: its clients would ask this server some times more before they look at the owner.
constexpr char kNoRetryHere[] = "grpc-retry-pushback-ms";

}  // namespace

absl::StatusOr<UsedLoader> OpenLoader(Loader* loader, OwnedJobs* owned, const std::string& job,
                                      grpc::CallbackServerContext* call) {
  if (loader == nullptr) return NoDataFolder();
  if (owned == nullptr) return UsedLoader{loader, nullptr};
  return OpenJob(*owned, job, call);
}

absl::StatusOr<UsedLoader> OpenJob(OwnedJobs& owned, const std::string& job,
                                   grpc::CallbackServerContext* call) {
  PH_RETURN_IF_ERROR(CheckJobName(job));
  PH_ASSIGN_OR_RETURN(OwnedJobs::Place place, owned.Open(job));
  if (place.job == nullptr) {
    call->AddTrailingMetadata(kOwnerMetadata, place.owner.address);
    call->AddTrailingMetadata(kNoRetryHere, "-1");
    return absl::UnavailableError(
        absl::StrCat("job ", Quoted(job), " is with the server at ", place.owner.address));
  }
  Loader* const of_job = &place.job->loader();
  return UsedLoader{of_job, std::move(place.job)};
}

}  // namespace packhouse::rpc
