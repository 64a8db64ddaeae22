#include "client/bench/packhouse_bench.h"

#include <CLI/CLI.hpp>

#include "client/bench/bench_ceiling.h"
#include "client/bench/bench_command.h"
#include "client/cpp/process_tuning.h"
#include "service/base/command_line/command_line.h"

namespace packhouse::client {

int RunPackhouseBench(int argc, char** argv) {
  TuneProcessForBatches();
  CLI::App app("Measures packhouse on this machine, and compares it with gRPC alone.",
               "packhouse-bench");
  app.set_version_flag("--version", "packhouse-bench " PACKHOUSE_VERSION);
  ExitCode code = kExitOk;
  AddBenchOptions(app, code);
  AddBenchCeilingCommand(app, code);
  return RunCommandLine(app, argc, argv, code);
}

}  // namespace packhouse::client
