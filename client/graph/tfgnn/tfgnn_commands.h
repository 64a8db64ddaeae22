// packhouse tfgnn: commands for the files of TF-GNN, its schemas and its TFRecords of tf.Examples.
// They need no server; `size-constraints` starts one of its own for the plan.
#ifndef PACKHOUSE_CLIENT_GRAPH_TFGNN_TFGNN_COMMANDS_H_
#define PACKHOUSE_CLIENT_GRAPH_TFGNN_TFGNN_COMMANDS_H_

#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "client/graph/server_connection.h"
#include "client/graph/tfgnn/example_graphs.h"

namespace packhouse::client {

// Adds the subcommand with its own subcommands; `code` gets its result when it has been run. Both
// must outlive `app`'s parsing.
void AddTfgnnCommand(CLI::App& app, ExitCode& code);

// Its parts, each a subcommand of `tfgnn`.
void AddTfgnnValidate(CLI::App& tfgnn, ExitCode& code);
void AddTfgnnPrint(CLI::App& tfgnn, ExitCode& code);
void AddTfgnnGenerate(CLI::App& tfgnn, ExitCode& code);
void AddTfgnnStats(CLI::App& tfgnn, ExitCode& code);
void AddTfgnnSizeConstraints(CLI::App& tfgnn, ExitCode& code);

// What several of them ask for.
struct TfgnnArguments {
  std::string graph_schema;
  ExamplesToRead examples;
};
void AddGraphSchemaOption(std::string& path, CLI::App& command);
void AddExamplesOptions(TfgnnArguments& arguments, CLI::App& command);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_TFGNN_TFGNN_COMMANDS_H_
