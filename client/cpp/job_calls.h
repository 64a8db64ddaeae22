// Calls about one job, where several servers share the jobs: its owner answers them.
#ifndef PACKHOUSE_CLIENT_CPP_JOB_CALLS_H_
#define PACKHOUSE_CLIENT_CPP_JOB_CALLS_H_

#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/job_servers.h"
#include "client/cpp/servers.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace packhouse::client {

// Whether a call may be made once more at the next of several servers, where one is away.
enum class Repeat { kNever, kSafe };

// Makes a call at a job's owner: begins with the servers that are given, each of which may be any
// of those that share the jobs, and makes it once more at the owner if the one that was asked names
// it. If it is safe to repeat, once at each other server too. Each try has at most `timeout`.
// `connect` makes channels to owners.
CallWay AtOwner(Servers servers, absl::Duration timeout, JobServers::Connect connect,
                Repeat repeat);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOB_CALLS_H_
