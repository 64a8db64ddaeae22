// packhouse-bench: measures servers of its own on this machine, and compares them with gRPC alone.
#include <CLI/CLI.hpp>

#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_command.h"
#include "client/cli/command_line.h"
#include "client/cpp/process_tuning.h"

int main(int argc, char** argv) {
  packhouse::client::TuneProcessForBatches();
  CLI::App app("Measures packhouse on this machine, beside what gRPC alone can do.",
               "packhouse-bench");
  app.set_version_flag("--version", "packhouse-bench " PACKHOUSE_VERSION);
  packhouse::client::ExitCode code = packhouse::client::kExitOk;
  packhouse::client::AddBenchOptions(app, code);
  packhouse::client::AddBenchCeilingCommand(app, code);
  return packhouse::client::RunCommandLine(app, argc, argv, code);
}
