#include "client/cli/packhouse.h"

#include <CLI/CLI.hpp>

#include "client/cli/commands/admin_command.h"
#include "client/cli/commands/batch_command.h"
#include "client/cli/commands/datasets_command.h"
#include "client/cli/commands/epoch_command.h"
#include "client/cli/commands/feedback_command.h"
#include "client/cli/commands/histogram_command.h"
#include "client/cli/commands/ingest_command.h"
#include "client/cli/commands/jobs_command.h"
#include "client/cli/commands/pack_command.h"
#include "client/cli/commands/plan_command.h"
#include "client/cli/commands/sample_command.h"
#include "client/cli/commands/tune_command.h"
#include "client/cli/partition/server_partition.h"
#include "client/cli/source_graphs/graph_command.h"
#include "client/cli/tfgnn/export_command.h"
#include "client/cpp/process_tuning.h"
#include "client/graph/tfgnn/tfgnn_commands.h"
#include "service/command_line/command_line.h"

namespace packhouse::client {

int RunPackhouse(int argc, char** argv) {
  TuneProcessForBatches();
  CLI::App app("Packs graphs of varying size into full, fixed-shape batches.", "packhouse");
  app.set_version_flag("--version", "packhouse " PACKHOUSE_VERSION);
  app.require_subcommand(1);
  ExitCode code = kExitOk;
  AddPlanCommand(app, code);
  AddTuneCommand(app, code);
  AddPackCommand(app, code);
  AddHistogramCommand(app, code);
  AddIngestCommand(app, code);
  AddExportCommand(app, code);
  AddDatasetsCommand(app, code);
  AddEpochCommand(app, code);
  AddJobsCommand(app, code);
  AddBatchCommand(app, code);
  AddFeedbackCommand(app, code);
  AddSampleCommand(app, code);
  AddGraphCommand(app, code);
  AddPartitionCommands(app, code);
  AddTfgnnCommand(app, code);
  AddAdminCommand(app, code);
  return RunCommandLine(app, argc, argv, code);
}

}  // namespace packhouse::client
