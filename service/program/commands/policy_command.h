// packhoused policy: checks a policy file before a server gets it. Needs no server.
#ifndef PACKHOUSE_SERVICE_PROGRAM_COMMANDS_POLICY_COMMAND_H_
#define PACKHOUSE_SERVICE_PROGRAM_COMMANDS_POLICY_COMMAND_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddPolicyCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_COMMANDS_POLICY_COMMAND_H_
