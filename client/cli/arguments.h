// What the subcommands have in common: exit codes, the server to talk to, sizes and limits.
#ifndef PACKHOUSE_CLIENT_CLI_ARGUMENTS_H_
#define PACKHOUSE_CLIENT_CLI_ARGUMENTS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/local_server.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/batch.pb.h"

namespace packhouse::client {

enum ExitCode { kExitOk = 0, kExitFailure = 1, kExitUsage = 2 };

// Writes `packhouse: ...` to stderr and returns the code. A failure is of the world: a file, the
// server, the sizes; a misuse is of the command line.
ExitCode Fail(const absl::Status& status);
ExitCode Misuse(const absl::Status& status);

// A channel, and the server behind it if it is the command's own.
struct ServerConnection {
  std::unique_ptr<LocalServer> local;
  std::shared_ptr<grpc::Channel> channel;
};

// Connects to `address`, or if it is empty starts a server that ends with the connection.
absl::StatusOr<ServerConnection> ConnectToServer(const std::string& address);

// Every call gets this much time, so that a server that hangs ends in an error.
std::chrono::system_clock::time_point CallDeadline();

// Adds `--sizes FILE`, required, to a subcommand.
void AddSizesOption(std::string& path, CLI::App& command);

// Adds `--server ADDRESS` to a subcommand.
void AddServerOption(std::string& address, CLI::App& command);

// Adds `--limit COMPONENT=ROWS`, which may be repeated.
void AddLimitOption(std::vector<std::string>& limits, CLI::App& command);

// Parses the values of `--limit`. Every component must be one of `components` or `graphs`.
//
// Errors: INVALID_ARGUMENT naming the value.
absl::StatusOr<v1::Limits> ParseLimits(const std::vector<std::string>& limits,
                                       const std::vector<std::string>& components);

// Capacity per component in the order of `components`, then of `graphs`; 0 where there is none.
std::vector<uint64_t> CapacitiesOf(const v1::Limits& limits,
                                   const std::vector<std::string>& components);

// `nodes=222, edges=502`.
std::string Describe(const v1::Limits& limits);

// The last part of a path without `.csv` and `.gz`.
std::string NameOfFile(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_ARGUMENTS_H_
