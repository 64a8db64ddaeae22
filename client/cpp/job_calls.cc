#include "client/cpp/job_calls.h"

#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "client/cpp/status.h"

namespace packhouse::client {

absl::Status JobCalls::Call(
    absl::FunctionRef<grpc::Status(const std::shared_ptr<grpc::Channel>&, grpc::ClientContext&)>
        make) const {
  std::shared_ptr<grpc::Channel> channel = channel_;
  for (int num_asked = 1;; ++num_asked) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout_));
    const grpc::Status status = make(channel, context);
    const std::optional<std::string> owner = OwnerNamedBy(status, context);
    if (!owner || num_asked == kMaxAsked) return ToAbslStatus(status);
    channel = connect_(*owner);
  }
}

}  // namespace packhouse::client
