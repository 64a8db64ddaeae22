// packhouse admin: what a server does now, its log, its files, its end.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_ADMIN_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_ADMIN_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddAdminCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_ADMIN_COMMAND_H_
