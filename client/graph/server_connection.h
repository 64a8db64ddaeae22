// The server that a command talks to, and the options that name it.
#ifndef PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_
#define PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_

#include <chrono>
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/credentials.h"
#include "client/cpp/servers.h"
#include "client/graph/local_server.h"
#include "grpcpp/channel.h"
#include "service/base/command_line/exit_code.h"

namespace packhouse::client {

// As Fail() of service/base/command_line, and what a server's message leaves open.
ExitCode Fail(const absl::Status& status);

// A channel, and the server behind it if it is the command's own.
struct ServerConnection {
  std::unique_ptr<LocalServer> local;
  // The first that answered, for streams; and all that were named, for calls that go on at the
  // next one while one is away.
  std::shared_ptr<grpc::Channel> channel;
  Servers servers;
};

// What the options of AddServerOption() give. Of the whole command: it has one server.
Credentials& CredentialsOfCommand();

// These, and what they leave open as the environment has it (client/cpp/credentials.h).
absl::StatusOr<Credentials> CredentialsToUse();

// Connects to `address`, or if it is empty starts a server that ends with the connection.
absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address);

// The deadline of every call, so that a hanging server causes an error.
std::chrono::system_clock::time_point CallDeadline();

// Adds `--server ADDRESS` to a subcommand, and the options of its certificates and tokens.
void AddServerOption(std::string& address, CLI::App& command);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SERVER_CONNECTION_H_
