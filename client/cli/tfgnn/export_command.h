// packhouse export: writes a data set as TFRecord files of tf.Examples, which TF-GNN reads.
#ifndef PACKHOUSE_CLIENT_CLI_TFGNN_EXPORT_COMMAND_H_
#define PACKHOUSE_CLIENT_CLI_TFGNN_EXPORT_COMMAND_H_

#include "CLI/App.hpp"
#include "client/cli/arguments.h"

namespace packhouse::client {

// Adds the subcommand; `code` gets its result when it has been run. Both must outlive `app`'s
// parsing.
void AddExportCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_TFGNN_EXPORT_COMMAND_H_
