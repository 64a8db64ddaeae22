// A server that the benchmark starts, and its connections to it.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_SERVER_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/graph/server_process.h"
#include "grpcpp/channel.h"

namespace packhouse::client {

// Not thread-safe; its channels are.
class BenchServer {
 public:
  // Runs `command` (ServerProcess) with this process's stderr, and connects `num_channels` times to
  // the address that it calls `grpc`. All sockets have the given congestion control; empty: the
  // system's.
  //
  // Errors: as ServerProcess, Connect and SetCongestionControl.
  static absl::StatusOr<std::unique_ptr<BenchServer>> Start(std::vector<std::string> command,
                                                            std::size_t num_channels,
                                                            const std::string& congestion);

  pid_t pid() const { return process_->pid(); }
  std::string Listening(absl::string_view name) const { return process_->Listening(name); }
  const std::shared_ptr<grpc::Channel>& channel(std::size_t i) const { return channels_[i]; }

 private:
  BenchServer() = default;

  std::unique_ptr<ServerProcess> process_;
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_SERVER_H_
