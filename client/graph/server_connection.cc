#include "client/graph/server_connection.h"

#include <utility>

namespace packhouse::client {
absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address) {
  std::unique_ptr<LocalServer> own;
  // The command's own server is reached by nobody else.
  absl::StatusOr<Credentials> credentials = Credentials();
  if (address.empty()) {
    absl::StatusOr<std::unique_ptr<LocalServer>> local = LocalServer::Start();
    if (!local.ok()) return local.status();
    own = *std::move(local);
  } else {
    credentials = CredentialsToUse();
    if (!credentials.ok()) return credentials.status();
  }
  absl::StatusOr<Servers> servers =
      ConnectAsCommand(address.empty() ? own->address() : address, *credentials);
  if (!servers.ok()) return servers.status();
  return ServerConnection{std::move(own), *std::move(servers)};
}

}  // namespace packhouse::client
