// The loader of a job, for calls about one job; or where the job is, if another server has it.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_PLACE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_PLACE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "service/engine/jobs/loader.h"
#include "service/engine/jobs/owned_jobs.h"

namespace packhouse::rpc {

// A loader, and what keeps it.
struct UsedLoader {
  Loader* loader = nullptr;
  std::shared_ptr<OwnedJob> job;  // Null: the server's one loader.
};

// For calls that only the owner of a job can answer; this server becomes the owner if nobody is:
// also by an acknowledgement, since all workers may be about to save their state, and load nothing.
// `loader` is the server's, null without a folder for data (NoDataFolder()); `owned` has those of
// jobs where several servers share the jobs, else it is null. Errors as OwnedJobs::Open().
// UNAVAILABLE if another server has the job: the call's trailing metadata "packhouse-owner" then
// has its address.
absl::StatusOr<UsedLoader> OpenJob(OwnedJobs& owned, const std::string& job,
                                   grpc::CallbackServerContext* call);
absl::StatusOr<UsedLoader> OpenLoader(Loader* loader, OwnedJobs* owned, const std::string& job,
                                      grpc::CallbackServerContext* call);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_JOB_PLACE_H_
