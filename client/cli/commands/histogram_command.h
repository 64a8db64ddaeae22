// packhouse histogram: sums up a size histogram, writes it as CSV, draws it.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_HISTOGRAM_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_HISTOGRAM_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddHistogramCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_HISTOGRAM_COMMAND_H_
