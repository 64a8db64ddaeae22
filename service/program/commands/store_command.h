// packhoused store: snapshots of a server's data folder, and its maintenance.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_STORE_COMMAND_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_STORE_COMMAND_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing. Its parts work on folders, without a server.
void AddStoreCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_STORE_COMMAND_H_
