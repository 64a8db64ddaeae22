#include "client/graph/graph_program.h"

#include <CLI/CLI.hpp>
#include <cerrno>

#include "client/cpp/process_tuning.h"
#include "client/graph/partition/partition_commands.h"
#include "client/graph/source_graphs/graph_generate_command.h"
#include "client/graph/source_graphs/graph_import_command.h"
#include "client/graph/tfgnn/tfgnn_commands.h"
#include "service/base/command_line/command_line.h"

namespace packhouse::client {

int RunGraphProgram(int argc, char** argv) {
  TuneProcessForBatches();
  CLI::App app(
      "Works on large graphs in files: imports, draws and cuts them; and on TF-GNN's files.",
      program_invocation_short_name);
  app.set_version_flag("--version", "packhouse-graph " PACKHOUSE_VERSION);
  app.require_subcommand(1);
  ExitCode code = kExitOk;
  AddGraphImportCommand(app, code);
  AddGraphGenerateCommand(app, code);
  AddPartitionCommand(app, code);
  AddTfgnnCommand(app, code);
  return RunCommandLine(app, argc, argv, code);
}

}  // namespace packhouse::client
