#include "client/cpp/call.h"

#include "absl/time/clock.h"
#include "client/cpp/status.h"

namespace packhouse::client {

CallWay Once(std::shared_ptr<grpc::Channel> channel, absl::Duration timeout) {
  return [channel = std::move(channel), timeout](CallOnChannel call, bool* /*was_retried*/) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    return ToAbslStatus(call(channel, context));
  };
}

CallWay WithRetry(Servers servers, RetryOptions options, std::string name, absl::Duration timeout) {
  return [servers = std::move(servers), options = std::move(options), name = std::move(name),
          timeout](CallOnChannel call, bool* was_retried) {
    return CallWithRetry(servers, options, name, timeout, call, was_retried);
  };
}

}  // namespace packhouse::client
