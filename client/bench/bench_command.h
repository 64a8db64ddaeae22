// packhouse-bench: what the service does on this machine, beside what gRPC alone does.
//
// Start with measures/ (what is measured and how), then bench_ceiling.h (against what).
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_COMMAND_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_COMMAND_H_

#include "CLI/App.hpp"
#include "service/base/command_line/exit_code.h"

namespace packhouse::client {

// Adds the options; `code` gets the result when no subcommand has been chosen. Both must outlive
// `app`'s parsing.
void AddBenchOptions(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_COMMAND_H_
