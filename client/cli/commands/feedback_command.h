// packhouse feedback: what batches cost on devices, as their trainers told the server.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_FEEDBACK_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_FEEDBACK_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddFeedbackCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_FEEDBACK_COMMAND_H_
