// packhouse graph: commands for source graphs, the large ones from which many small ones are drawn.
#ifndef PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_GRAPH_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_GRAPH_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand with its own subcommands; `code` gets its result when it has been run. Both
// must outlive `app`'s parsing.
void AddGraphCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_GRAPH_COMMAND_H_
