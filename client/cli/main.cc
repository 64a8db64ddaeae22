// packhouse: the command line of the packing service. `packhouse --help` tells the rest.
#include <CLI/CLI.hpp>

#include "client/cli/command_line.h"
#include "client/cli/commands/datasets_command.h"
#include "client/cli/commands/histogram_command.h"
#include "client/cli/commands/ingest_command.h"
#include "client/cli/commands/jobs_command.h"
#include "client/cli/commands/pack_command.h"
#include "client/cli/commands/plan_command.h"
#include "client/cli/commands/tune_command.h"
#include "client/cpp/process_tuning.h"

int main(int argc, char** argv) {
  packhouse::client::TuneProcessForBatches();
  CLI::App app("Packs graphs of varying size into full, fixed-shape batches.", "packhouse");
  app.set_version_flag("--version", "packhouse " PACKHOUSE_VERSION);
  app.require_subcommand(1);
  packhouse::client::ExitCode code = packhouse::client::kExitOk;
  packhouse::client::AddPlanCommand(app, code);
  packhouse::client::AddTuneCommand(app, code);
  packhouse::client::AddPackCommand(app, code);
  packhouse::client::AddHistogramCommand(app, code);
  packhouse::client::AddIngestCommand(app, code);
  packhouse::client::AddDatasetsCommand(app, code);
  packhouse::client::AddJobsCommand(app, code);
  return packhouse::client::RunCommandLine(app, argc, argv, code);
}
