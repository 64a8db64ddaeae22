// packhouse store: snapshots of a server's data folder, and its maintenance.
#ifndef PACKHOUSE_CLIENT_CLI_STORE_STORE_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_STORE_STORE_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing. Its parts work on folders, without a server.
void AddStoreCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_STORE_STORE_COMMAND_H_
