// packhouse graph import: files of a large graph become a source graph of a server.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_IMPORT_COMMAND_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_IMPORT_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/App.hpp"
#include "client/graph/server_connection.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// Adds the subcommand to `graph`; `code` gets its result when it has been run. Both must outlive
// the parsing.
void AddGraphImportCommand(CLI::App& graph, ExitCode& code);

// How rows get into a server: options that `import` and `generate` share.
struct GraphImportArguments {
  std::string server;
  std::string graph;
  std::string producer;
  std::string chunk_bytes;
  std::string max_bytes;
  std::string lookup = "both";
  std::string duplicates = "refuse";
  bool seal = false;
  bool appended_only = false;
  bool quiet = false;
};
void AddGraphImportOptions(GraphImportArguments& arguments, CLI::App& command);

// --ogb-name, as OpenSourceTables takes it.
void AddOgbNameOption(std::string& name, CLI::App& command);

// On stderr, a line each.
void ShowNotes(const std::vector<std::string>& notes);

// Imports, shows progress on stderr, and the result on stdout.
ExitCode RunGraphImport(const GraphImportArguments& arguments, const SourceTables& tables);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_IMPORT_COMMAND_H_
