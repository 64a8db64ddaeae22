// packhoused admin: what administrators do with a server that runs.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_ADMIN_COMMAND_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_ADMIN_COMMAND_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing. Its words, its output and its exit codes are those of `packhouse admin` of the Python
// package; this one is for where there is no Python, as in the image.
void AddAdminCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_ADMIN_COMMAND_H_
