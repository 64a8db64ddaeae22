#include "client/cpp/channel.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/service_config.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace packhouse::client {

absl::string_view RetryServiceConfig() { return kServiceConfig; }

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  // They come first, since gRPC takes the first argument of a name.
  for (const auto& [name, value] : options.arguments) {
    if (const int* number = std::get_if<int>(&value)) {
      arguments.SetInt(name, *number);
    } else {
      arguments.SetString(name, std::get<std::string>(value));
    }
  }
  arguments.SetMaxReceiveMessageSize(options.max_receive_bytes);
  arguments.SetMaxSendMessageSize(options.max_send_bytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_time)));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.keepalive_timeout)));
  // Even patient servers count pings without a call as strikes.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  // Finds a restarted server soon; the default grows to two minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Otherwise channels to one address share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);

  // A service config that the resolver has for a name takes precedence.
  if (options.retries) arguments.SetServiceConfigJSON(kServiceConfig);
  if (!options.load_balancing_policy.empty()) {
    arguments.SetLoadBalancingPolicyName(options.load_balancing_policy);
  }
  return grpc::CreateCustomChannel(
      address, options.credentials ? options.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       absl::Duration timeout,
                                                       const ChannelOptions& options) {
  std::shared_ptr<grpc::Channel> channel = MakeChannel(address, options);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + timeout))) {
    return absl::DeadlineExceededError(absl::StrCat("no connection to a packhouse server at '",
                                                    address, "' within ",
                                                    absl::FormatDuration(timeout)));
  }
  return channel;
}

}  // namespace packhouse::client
