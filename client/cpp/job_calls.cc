#include "client/cpp/job_calls.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "client/cpp/away.h"
#include "client/cpp/status.h"

namespace packhouse::client {

namespace {

// Servers that are asked: when a job changes its owner, two may name each other for a while.
constexpr int kMaxAsked = 3;

absl::Status CallAtOwner(const Servers& servers, absl::Duration timeout,
                         const JobServers::Connect& connect, Repeat repeat, CallOnChannel call,
                         bool* was_retried) {
  std::size_t num_away = 0;
  std::shared_ptr<grpc::Channel> asked = servers.current();
  std::shared_ptr<grpc::Channel> channel = asked;
  for (int num_asked = 1;;) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    const grpc::Status status = call(channel, context);
    if (const std::optional<std::string> owner = OwnerNamedBy(status, context)) {
      if (num_asked++ == kMaxAsked) return ToAbslStatus(status);
      channel = connect(*owner);
      continue;
    }
    const absl::Status ended = ToAbslStatus(status);
    if (!Passes(ended)) return ended;
    servers.Leave(asked);
    if (repeat == Repeat::kNever || ++num_away == servers.size()) return ended;
    if (was_retried != nullptr) *was_retried = true;
    channel = asked = servers.current();
  }
}

}  // namespace

CallWay AtOwner(Servers servers, absl::Duration timeout, JobServers::Connect connect,
                Repeat repeat) {
  return [servers = std::move(servers), timeout, connect = std::move(connect), repeat](
             CallOnChannel call, bool* was_retried) {
    return CallAtOwner(servers, timeout, connect, repeat, call, was_retried);
  };
}

}  // namespace packhouse::client
