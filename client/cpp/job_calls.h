// Calls about one job, where several servers share the jobs: its owner answers them.
#ifndef PACKHOUSE_CLIENT_CPP_JOB_CALLS_H_
#define PACKHOUSE_CLIENT_CPP_JOB_CALLS_H_

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/job_servers.h"
#include "client/cpp/servers.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace packhouse::client {

// Begins with the channel that the client was given, which may lead to any of the servers.
// Thread-safe.
class JobCalls {
 public:
  // Servers that are asked: when a job changes its owner, two may name each other for a while.
  static constexpr int kMaxAsked = 3;

  // A call has at most `timeout` at each server. `connect` makes channels to owners.
  JobCalls(Servers servers, absl::Duration timeout, JobServers::Connect connect)
      : servers_(std::move(servers)), timeout_(timeout), connect_(std::move(connect)) {}

  // Whether a call may be made once more at the next of several servers, where one is away.
  enum class Repeat { kNever, kSafe };

  // Makes the call; once more at the job's owner, if the server that was asked names it, and if it
  // is safe to repeat once at each other server. The status of the last try.
  absl::Status Call(absl::FunctionRef<grpc::Status(const std::shared_ptr<grpc::Channel>& channel,
                                                   grpc::ClientContext& context)>
                        make,
                    Repeat repeat = Repeat::kNever) const;

 private:
  const Servers servers_;
  const absl::Duration timeout_;
  const JobServers::Connect connect_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOB_CALLS_H_
