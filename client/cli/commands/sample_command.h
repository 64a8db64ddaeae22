// `packhouse sample`: sub-graphs of a source graph.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_SAMPLE_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_SAMPLE_COMMAND_H_

#include <CLI/CLI.hpp>

#include "client/cli/arguments.h"

namespace packhouse::client {

// Sets `code` when the command runs. Both must outlive the parsing.
void AddSampleCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_SAMPLE_COMMAND_H_
