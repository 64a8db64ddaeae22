#include "service/server/listen/grpc_settings.h"

#include <utility>

#include "absl/time/time.h"
#include "grpcpp/resource_quota.h"

namespace packhouse::rpc {
namespace {

// A connection that sends no HTTP/2 preface in this time is closed.
constexpr int kHandshakeMs = 20'000;

}  // namespace

void SetUpGrpc(grpc::ServerBuilder& builder, const ServerOptions& options,
               const ServerBounds& bounds) {
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  // A small compressed message may become huge before its size is checked.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMs);
  // Notices within two minutes that a client has vanished, and lets clients ping every second:
  // those of a cluster want to notice a server that is stopped before others take its jobs.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 900);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  for (const auto& [argument, duration] :
       {std::pair(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age),
        std::pair(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, options.max_connection_age_grace),
        std::pair(GRPC_ARG_MAX_CONNECTION_IDLE_MS, options.connection_idle_timeout)}) {
    if (duration == absl::InfiniteDuration()) continue;
    builder.AddChannelArgument(argument, static_cast<int>(absl::ToInt64Milliseconds(duration)));
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(bounds.calls_of_connection));
  grpc::ResourceQuota received("received");
  received.Resize(bounds.shares.received_bytes);
  builder.SetResourceQuota(received);
  // Otherwise gRPC would let the window of each stream grow with the connection's speed.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             bounds.shares.receive_window_bytes);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, options.channelz ? 1 : 0);
}

}  // namespace packhouse::rpc
