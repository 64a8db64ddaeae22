// The server that a command talks to, or one of its own.
#ifndef PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_
#define PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/command/server_options.h"
#include "client/cpp/servers.h"
#include "client/graph/local_server.h"
#include "grpcpp/channel.h"

namespace packhouse::client {

// What is done without --server.
inline constexpr char kOwnServer[] = "without it one is started for this command alone";

// A channel, and the server behind it if it is the command's own.
struct ServerConnection {
  std::unique_ptr<LocalServer> local;
  // The first that answered, for streams; and all that were named, for calls that go on at the
  // next one while one is away.
  std::shared_ptr<grpc::Channel> channel;
  Servers servers;
};

// Connects to `address`, or if it is empty starts a server that ends with the connection.
absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address);

// The deadline of every call, so that a hanging server causes an error.
std::chrono::system_clock::time_point CallDeadline();

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_
