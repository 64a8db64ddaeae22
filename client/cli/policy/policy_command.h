// packhouse policy: checks a policy file before a server gets it. Needs no server.
#ifndef PACKHOUSE_CLIENT_CLI_POLICY_POLICY_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_POLICY_POLICY_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddPolicyCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_POLICY_POLICY_COMMAND_H_
