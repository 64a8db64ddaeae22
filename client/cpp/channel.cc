#include "client/cpp/channel.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/addresses.h"
#include "client/cpp/servers.h"
#include "client/cpp/service_config.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/channel_arguments.h"

namespace packhouse::client {
namespace {

// Time to learn why there is no connection.
constexpr absl::Duration kAskWhy = absl::Seconds(2);
constexpr absl::Duration kLook = absl::Milliseconds(500);

absl::StatusOr<Credentials> CredentialsOf(const ChannelOptions& options) {
  if (options.secured_by) return *options.secured_by;
  return CredentialsFromEnvironment();
}

// How a call ends that costs the server nothing.
grpc::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout,
                         bool waits_for_ready) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  context.set_wait_for_ready(waits_for_ready);
  grpc::CompletionQueue queue;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

// What gRPC says to a call that does not wait for a connection.
std::string WhyNotConnected(const std::shared_ptr<grpc::Channel>& channel) {
  return CheckHealth(channel, kAskWhy, /*waits_for_ready=*/false).error_message();
}

}  // namespace

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
  // A proxy of the environment is for other machines; no_proxy often forgets this one.
  if (IsOwnAddress(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Otherwise channels to one address share one connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);

  // A service config that the resolver has for a name takes precedence.
  if (options.retries) arguments.SetServiceConfigJSON(kServiceConfig);
  if (!options.load_balancing_policy.empty()) {
    arguments.SetLoadBalancingPolicyName(options.load_balancing_policy);
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = options.credentials;
  if (credentials == nullptr) {
    const absl::StatusOr<Credentials> given = CredentialsOf(options);
    if (given.ok() && !given->tls_server_name.empty()) {
      arguments.SetSslTargetNameOverride(given->tls_server_name);
    }
    auto made = given.ok() ? ToGrpc(*given) : given.status();
    // Without any, gRPC makes a channel whose calls fail.
    if (made.ok()) credentials = *std::move(made);
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

namespace {

// To be put behind `no server at X within 10 s`.
std::string WhyNoServer(const std::string& address, const std::shared_ptr<grpc::Channel>& channel) {
  std::string why(MeaningOf(WhyNotConnected(channel)));
  const std::string variable = ProxyVariable(address);
  // By a proxy, nobody here knows what is at the other end.
  if (why.empty() && variable.empty()) return WhyUnreachable(address, kLook);
  if (!variable.empty()) {
    absl::StrAppend(&why, "; the call goes by the HTTP proxy of the variable ", variable,
                    ": no_proxy excepts servers from it");
  }
  return why;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToOne(const std::string& address,
                                                            absl::Duration timeout,
                                                            const ChannelOptions& options) {
  // A list of nothing is one address.
  if (address.find_first_not_of(", \t\r\n") == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("address '", address,
                     "' names no server: it is HOST:PORT or unix:PATH, or several of these "
                     "with commas between them"));
  }
  if (options.credentials == nullptr) {
    const absl::StatusOr<Credentials> given = CredentialsOf(options);
    if (!given.ok()) return given.status();
    if (const auto made = ToGrpc(*given); !made.ok()) return made.status();
  }
  std::shared_ptr<grpc::Channel> channel = MakeChannel(address, options);
  const absl::Time end = absl::Now() + timeout;
  while (true) {
    const grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return channel;
    // gRPC tries again, also if a certificate was refused: that cannot help.
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      const std::string why = WhyNotConnected(channel);
      if (MeansRefusal(why)) {
        return absl::UnavailableError(absl::StrCat("no server at ", address, MeaningOf(why)));
      }
    }
    if (!channel->WaitForStateChange(state, absl::ToChronoTime(end))) {
      return absl::UnavailableError(absl::StrCat("no server at ", address, " within ",
                                                 absl::ToDoubleSeconds(timeout), " s",
                                                 WhyNoServer(address, channel)));
    }
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       absl::Duration timeout,
                                                       const ChannelOptions& options) {
  if (AddressesOf(address).size() == 1) return ConnectToOne(address, timeout, options);
  const absl::StatusOr<Servers> servers = ConnectToServers(address, timeout, options);
  if (!servers.ok()) return servers.status();
  return servers->current();
}

bool Answers(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout) {
  const grpc::StatusCode code =
      CheckHealth(channel, timeout, /*waits_for_ready=*/true).error_code();
  return code != grpc::StatusCode::UNAVAILABLE && code != grpc::StatusCode::DEADLINE_EXCEEDED;
}

}  // namespace packhouse::client
