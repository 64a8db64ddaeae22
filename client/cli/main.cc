// packhouse: the command line of the packing service. `packhouse --help` tells the rest.
#include <CLI/CLI.hpp>

#include "client/cli/bench_ceiling.h"
#include "client/cli/bench_command.h"
#include "client/cli/datasets_command.h"
#include "client/cli/histogram_command.h"
#include "client/cli/ingest_command.h"
#include "client/cli/jobs_command.h"
#include "client/cli/pack_command.h"
#include "client/cli/plan_command.h"
#include "client/cli/tune_command.h"
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
  packhouse::client::AddBenchCommand(app, code);
  packhouse::client::AddBenchCeilingCommand(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11 has an exit code for each kind of misuse, and throws for --help and --version too.
    return app.exit(error) == 0 ? packhouse::client::kExitOk : packhouse::client::kExitUsage;
  }
  return code;
}
