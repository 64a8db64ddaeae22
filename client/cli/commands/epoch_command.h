// `packhouse epoch`: what an epoch of a data set would be, before anything is loaded.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_EPOCH_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_EPOCH_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; its callback sets `code`.
void AddEpochCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_EPOCH_COMMAND_H_
