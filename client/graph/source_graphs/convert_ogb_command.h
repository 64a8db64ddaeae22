// packhouse tfgnn convert-ogb: a downloaded data set of OGB becomes a unigraph.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CONVERT_OGB_COMMAND_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CONVERT_OGB_COMMAND_H_

#include "CLI/App.hpp"
#include "client/graph/server_connection.h"

namespace packhouse::client {

// Adds the subcommand to `tfgnn`; `code` gets its result when it has been run. Both must outlive
// the parsing.
void AddConvertOgbCommand(CLI::App& tfgnn, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CONVERT_OGB_COMMAND_H_
