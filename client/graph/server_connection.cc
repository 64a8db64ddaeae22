#include "client/graph/server_connection.h"

#include <utility>

namespace packhouse::client {
namespace {

constexpr std::chrono::minutes kCallTimeout{10};

}  // namespace

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
  return ServerConnection{std::move(own), servers->current(), *std::move(servers)};
}

std::chrono::system_clock::time_point CallDeadline() {
  return std::chrono::system_clock::now() + kCallTimeout;
}

}  // namespace packhouse::client
