// The server that a command talks to, or one of its own.
#ifndef PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_
#define PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/command/server_options.h"
#include "client/cpp/servers.h"
#include "client/graph/local_server.h"

namespace packhouse::client {

// What is done without --server.
inline constexpr char kOwnServer[] = "without it one is started for this command alone";

// All servers that were named, beginning with the first that answered; and the command's own, if it
// has one.
struct ServerConnection {
  std::unique_ptr<LocalServer> local;
  Servers servers;
};

// Connects to `address`, or if it is empty starts a server that ends with the connection.
absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address);

// The time of every call, so that a hanging server causes an error.
inline constexpr absl::Duration kCallTimeout = absl::Minutes(10);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_
