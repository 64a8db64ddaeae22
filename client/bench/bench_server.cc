#include "client/bench/bench_server.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/bench/bench_sockets.h"
#include "client/cpp/channel.h"

namespace packhouse::client {

absl::StatusOr<std::unique_ptr<BenchServer>> BenchServer::Start(std::vector<std::string> command,
                                                                std::size_t num_channels,
                                                                const std::string& congestion) {
  absl::StatusOr<std::unique_ptr<ServerProcess>> process =
      ServerProcess::Start(std::move(command), ServerProcess::Log::kPassOn);
  if (!process.ok()) return process.status();
  if (absl::Status status = (*process)->WaitUntilReady(); !status.ok()) return status;
  std::unique_ptr<BenchServer> server(new BenchServer());
  server->process_ = *std::move(process);
  const std::string address = server->Listening("grpc");
  for (std::size_t i = 0; i < num_channels; ++i) {
    absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = Connect(address, absl::Seconds(10));
    if (!channel.ok()) return channel.status();
    server->channels_.push_back(*std::move(channel));
  }
  if (!congestion.empty()) {
    if (absl::Status status = SetCongestionControl(PortOf(address), congestion); !status.ok()) {
      return status;
    }
  }
  return server;
}

}  // namespace packhouse::client
