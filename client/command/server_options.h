// The options of a command that name its server, and what becomes of them.
#ifndef PACKHOUSE_CLIENT_COMMAND_SERVER_OPTIONS_H_
#define PACKHOUSE_CLIENT_COMMAND_SERVER_OPTIONS_H_

#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/credentials.h"
#include "client/cpp/servers.h"
#include "service/base/command_line/exit_code.h"

namespace packhouse::client {

// As Fail() of service/base/command_line, and what a server's message leaves open.
ExitCode Fail(const absl::Status& status);

// Adds `--server ADDRESS` to a subcommand, and the options of its certificates and tokens.
// `otherwise` says what is done without it; empty: it is required.
void AddServerOption(std::string& address, const std::string& otherwise, CLI::App& command);

// What the options of AddServerOption() give. Of the whole command: it has one server.
Credentials& CredentialsOfCommand();

// These, and what they leave open as the environment has it (client/cpp/credentials.h).
absl::StatusOr<Credentials> CredentialsToUse();

// ConnectToServers(), for ten seconds.
absl::StatusOr<Servers> ConnectAsCommand(const std::string& addresses,
                                         const Credentials& credentials);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_COMMAND_SERVER_OPTIONS_H_
