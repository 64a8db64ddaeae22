// packhouse batch: batches of an epoch, made again as a trainer got them.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_BATCH_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_BATCH_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddBatchCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_BATCH_COMMAND_H_
