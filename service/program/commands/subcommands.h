// The subcommands of packhoused. `code` gets the result of one when it has been run; both arguments
// must outlive the parsing.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_SUBCOMMANDS_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_SUBCOMMANDS_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"
#include "service/program/commands/commands.h"

namespace packhouse {

// packhoused admin: what administrators do with a server that runs. Its words, its output and its
// exit codes are those of `packhouse admin` of the Python package; this one is for where there is
// no Python, as in the image.
void AddAdminCommand(CLI::App& app, ExitCode& code);

// packhoused policy: checks a policy file before a server gets it. Needs no server.
void AddPolicyCommand(CLI::App& app, ExitCode& code);

// packhoused store: snapshots of a server's data folder, and its maintenance. Its parts work on
// folders, without a server.
void AddStoreCommand(CLI::App& app, const CommandParts& parts, ExitCode& code);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_SUBCOMMANDS_H_
