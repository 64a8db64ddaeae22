// packhouse graph generate: a large graph that is drawn, as files or right into a server.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_GENERATE_COMMAND_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_GENERATE_COMMAND_H_

#include "CLI/App.hpp"
#include "client/graph/server_connection.h"

namespace packhouse::client {

// Adds the subcommand to `graph`; `code` gets its result when it has been run. Both must outlive
// the parsing.
void AddGraphGenerateCommand(CLI::App& graph, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_GENERATE_COMMAND_H_
