#include "client/cli/source_graphs/graph_command.h"

#include "client/cli/source_graphs/stored_graphs_command.h"
#include "client/graph/source_graphs/graph_generate_command.h"
#include "client/graph/source_graphs/graph_import_command.h"

namespace packhouse::client {

void AddGraphCommand(CLI::App& app, ExitCode& code) {
  CLI::App* const command = app.add_subcommand(
      "graph", "Work with source graphs: large graphs from which many small ones are drawn");
  command->require_subcommand(1);
  AddGraphImportCommand(*command, code);
  AddGraphGenerateCommand(*command, code);
  AddStoredGraphsCommands(*command, code);
}

}  // namespace packhouse::client
