// packhouse pack: sends the sizes of a file through a Pack stream and reports how full the batches
// are, compared with the simplest packer and the lower bound.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_PACK_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_PACK_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddPackCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_PACK_COMMAND_H_
