// packhouse graph list, show, seal, delete, verify: the source graphs that a server has.
#ifndef PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_STORED_GRAPHS_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_STORED_GRAPHS_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds these subcommands to `graph`; `code` gets the result of the one that has been run. Both must
// outlive the parsing.
void AddStoredGraphsCommands(CLI::App& graph, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_STORED_GRAPHS_COMMAND_H_
