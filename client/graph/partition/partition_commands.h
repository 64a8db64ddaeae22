// packhouse partition: a large graph into parts, and what belongs to it.
#ifndef PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_COMMANDS_H_
#define PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_COMMANDS_H_

#include <memory>

#include "CLI/App.hpp"
#include "absl/status/statusor.h"
#include "service/base/command_line/exit_code.h"
#include "service/wings/partition/cutting/assignment_engine.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddPartitionCommand(CLI::App& app, ExitCode& code);

// The program packhouse-metis as an engine: it is beside this program.
absl::StatusOr<std::unique_ptr<AssignmentEngine>> FindMetis();

// Its parts, each a subcommand of `partition`; none needs a server.
void AddPartitionRestore(CLI::App& partition, ExitCode& code);
void AddPartitionConvert(CLI::App& partition, ExitCode& code);
void AddPartitionExport(CLI::App& partition, ExitCode& code);
void AddPartitionDglpart(CLI::App& partition, ExitCode& code);
// Hidden: what `packhouse partition --server --orig-ids` does with the folder that it downloads.
void AddPartitionOriginalIds(CLI::App& partition, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_PARTITION_PARTITION_COMMANDS_H_
