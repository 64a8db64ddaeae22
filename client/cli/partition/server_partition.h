// packhouse partition --server: a source graph that a server keeps, cut there.
#ifndef PACKHOUSE_CLIENT_CLI_PARTITION_SERVER_PARTITION_H_
#define PACKHOUSE_CLIENT_CLI_PARTITION_SERVER_PARTITION_H_

#include "client/cli/arguments.h"
#include "client/graph/partition/partition_arguments.h"

namespace packhouse::client {

// Begins the partition, waits for its end, downloads it to --output if that is given, makes the
// data set of --dataset, and prints table and picture. With --detach it only begins it. SIGINT
// cancels the partition on the server.
ExitCode RunServerPartition(const PartitionArguments& arguments);

// `partition` of files and of a server.
void AddPartitionCommands(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_PARTITION_SERVER_PARTITION_H_
