// Channels to a packhouse server, with settings chosen for streams of large batches.
#ifndef PACKHOUSE_CLIENT_CPP_CHANNEL_H_
#define PACKHOUSE_CLIENT_CPP_CHANNEL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/credentials.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"

namespace packhouse::client {

// The channel itself retries calls that are safe to retry (the protos say which) if they end with
// UNAVAILABLE, or with CANCELLED by a server that is going down: four times, after up to 0.1, 0.2,
// 0.4 and 0.8 seconds. This is enough to find another server; to wait for one to come back, use
// RetryOptions (dataset_retry.h). The config is proto/packhouse/v1/service_config.json, which any
// gRPC client can load.
absl::string_view RetryServiceConfig();

struct ChannelOptions {
  // Null: `secured_by`.
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  // Certificates and tokens. nullopt: those of the environment (credentials.h); where there are
  // none, and with Credentials(), plain text: for a trusted network or a Unix socket.
  std::optional<Credentials> secured_by = std::nullopt;

  // A larger message from the server ends its call with RESOURCE_EXHAUSTED. gRPC's own default of 4
  // MiB is too small for many batches. A stream needs PackOpened.batch_bytes, plus some hundred
  // bytes for each tensor. The whole message is in memory while it is read.
  int max_receive_bytes = 256 << 20;
  // Larger messages are refused before they are sent. The server has a bound of its own.
  int max_send_bytes = 64 << 20;

  // How long a silent connection waits before it asks whether the server is alive. gRPC servers
  // close a connection with pings more often than every five minutes (ENHANCE_YOUR_CALM), so go
  // below six minutes only if the server's minimum was lowered.
  absl::Duration keepalive_time = absl::Minutes(6);
  // A ping that is not answered within this time breaks the connection; its calls end with
  // UNAVAILABLE.
  absl::Duration keepalive_timeout = absl::Seconds(20);

  // Which of a name's addresses a call goes to. Empty: gRPC's own choice (pick_first): all calls go
  // to the first address that can be connected to. "round_robin": each address in turn, for several
  // servers behind a name that resolves to all of them, such as a headless Kubernetes service.
  std::string load_balancing_policy = {};

  // Whether to use RetryServiceConfig(). False: every error reaches the caller at once.
  bool retries = true;

  // Any other channel arguments of gRPC, such as {"grpc.max_reconnect_backoff_ms", 5000}; they also
  // override those that the fields above set.
  std::vector<std::pair<std::string, std::variant<int, std::string>>> arguments = {};
};

// Makes a channel to `address` (HOST:PORT, unix:PATH, or any other name that gRPC takes) that
// connects when it is first used. The environment's http_proxy is for other machines: a server on
// this one is reached without it. All channels of the clients are made here. With credentials that
// make no sense, all its calls fail; Connect() says why.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options = {});

// MakeChannel(), and waits until it is connected. Of several addresses with commas between them, to
// the first that answers; each has its equal part of `timeout`.
//
// Every call of Connect makes a connection of its own. Streams that move much data are fastest with
// one channel each. Any number of threads may use a channel.
//
// For batches of 256 KiB and more, put GRPC_EXPERIMENTS=-tcp_read_chunks into the environment
// before gRPC is first used: messages then arrive in one or two pieces, not in dozens.
//
// Errors: UNAVAILABLE, naming the address and what a plain connection meets there, if there is no
// connection after `timeout`; at once, saying which side refuses whom, if it is for a certificate
// or the want of TLS, as far as gRPC says it. INVALID_ARGUMENT if `address` names no server, and as
// ToGrpc() of the credentials.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       absl::Duration timeout,
                                                       const ChannelOptions& options = {});

// Whether the server answers anything within `timeout`; waits for a connection, too.
bool Answers(const std::shared_ptr<grpc::Channel>& channel, absl::Duration timeout);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_CHANNEL_H_
