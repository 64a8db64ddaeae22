// `packhouse tune`: choose the limits for a device.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_TUNE_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_TUNE_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; when it is parsed, it runs and leaves its exit code in `code`, which must
// outlive `app`.
void AddTuneCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_TUNE_COMMAND_H_
