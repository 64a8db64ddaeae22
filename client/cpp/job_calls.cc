#include "client/cpp/job_calls.h"

#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "client/cpp/away.h"
#include "client/cpp/status.h"

namespace packhouse::client {

absl::Status JobCalls::Call(
    absl::FunctionRef<grpc::Status(const std::shared_ptr<grpc::Channel>&, grpc::ClientContext&)>
        make,
    Repeat repeat) const {
  std::size_t num_away = 0;
  std::shared_ptr<grpc::Channel> asked = servers_.current();
  std::shared_ptr<grpc::Channel> channel = asked;
  for (int num_asked = 1;;) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    const grpc::Status status = make(channel, context);
    if (const std::optional<std::string> owner = OwnerNamedBy(status, context)) {
      if (num_asked++ == kMaxAsked) return ToAbslStatus(status);
      channel = connect_(*owner);
      continue;
    }
    const absl::Status ended = ToAbslStatus(status);
    if (!Passes(ended)) return ended;
    servers_.Leave(asked);
    if (repeat == Repeat::kNever || ++num_away == servers_.size()) return ended;
    channel = asked = servers_.current();
  }
}

}  // namespace packhouse::client
