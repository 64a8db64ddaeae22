// packhouse ingest: brings the graphs of a file into a data set on a server, once, however often it
// is begun.
#ifndef PACKHOUSE_CLIENT_CLI_COMMANDS_INGEST_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_COMMANDS_INGEST_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddIngestCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_COMMANDS_INGEST_COMMAND_H_
