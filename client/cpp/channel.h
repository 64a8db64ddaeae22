// Channels to a packhouse server, with settings chosen for streams of large batches.
#ifndef PACKHOUSE_CLIENT_CPP_CHANNEL_H_
#define PACKHOUSE_CLIENT_CPP_CHANNEL_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/credentials.h"

namespace packhouse::client {

// Calls that are safe to retry (the protos say which) are retried by the channel itself if they end
// with UNAVAILABLE, or with CANCELLED by a server that is going down: four times, after up to 0.1,
// 0.2, 0.4 and 0.8 seconds, which is enough to find another server. Who waits for one to come back
// has RetryOptions (dataset_retry.h). It is proto/packhouse/v1/service_config.json, which any gRPC
// client can load.
absl::string_view RetryServiceConfig();

struct ChannelOptions {
  // Null: plain text, for a trusted network or a Unix socket.
  std::shared_ptr<grpc::ChannelCredentials> credentials;

  // A larger message from the server ends its call with RESOURCE_EXHAUSTED. gRPC's own default of
  // 4 MiB is less than many a batch; PackOpened.batch_bytes tells what a stream needs, plus some
  // hundred bytes a tensor. A message is wholly in memory while it is read.
  int max_receive_bytes = 256 << 20;
  // Larger messages are refused before they are sent. The server has a bound of its own.
  int max_send_bytes = 64 << 20;

  // How long a silent connection waits before it asks whether the server is alive. gRPC servers
  // answer pings more often than every five minutes by closing the connection
  // (ENHANCE_YOUR_CALM), so go below six minutes only if the server's minimum was lowered.
  absl::Duration keepalive_time = absl::Minutes(6);
  // A ping not answered within this time breaks the connection; its calls end with UNAVAILABLE.
  absl::Duration keepalive_timeout = absl::Seconds(20);

  // Which of a name's addresses a call goes to. Empty: gRPC's own choice, which is the first that
  // can be connected to (pick_first), for all calls. "round_robin": all of them by turns, for
  // several servers behind a name that resolves to each of them, such as a headless Kubernetes
  // service.
  std::string load_balancing_policy = {};

  // RetryServiceConfig(). False: every error is the caller's at once.
  bool retries = true;

  // Any other of gRPC's channel arguments, such as {"grpc.max_reconnect_backoff_ms", 5000}; they
  // also replace what is set from the above.
  std::vector<std::pair<std::string, std::variant<int, std::string>>> arguments = {};
};

// Makes a channel to `address` (HOST:PORT, unix:PATH, or any other of gRPC's names) that connects
// when it is first used. All channels of the clients are made here.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address,
                                           const ChannelOptions& options = {});

// MakeChannel(), and waits until it is connected.
//
// Every call makes a connection of its own: streams that move much data do best on one channel
// each. The channel may be used by any number of threads.
//
// For batches of 256 KiB and more, put GRPC_EXPERIMENTS=-tcp_read_chunks into the environment
// before gRPC is first used: messages then arrive in one or two pieces, not in dozens.
//
// Errors: DEADLINE_EXCEEDED, naming the address, if there is no connection after `timeout`.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       absl::Duration timeout,
                                                       const ChannelOptions& options = {});

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_CHANNEL_H_
