#include "client/cli/tfgnn/export_command.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/arguments.h"
#include "client/cli/device_arguments.h"
#include "client/cli/reports/dataset_report.h"
#include "client/cli/reports/ingest_progress.h"
#include "client/cpp/dataset_client.h"
#include "client/graph/tfgnn/tfrecord_files.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

struct ExportArguments {
  std::string server;
  std::string dataset;
  std::string tfrecord;
  std::string graph_schema;
  uint64_t first_graph = 0;
  uint64_t num_graphs = 0;
  // Set: in the order of this epoch. The others are for an epoch only.
  std::optional<uint64_t> epoch;
  uint64_t seed = 0;
  std::vector<std::string> limits;
  v1::Padding padding = v1::PADDING_NONE;
  bool grouped = false;
  bool quiet = false;
};

// The epoch whose order was asked for.
absl::StatusOr<v1::EpochSpec> EpochOf(const ExportArguments& arguments,
                                      const DatasetClient& datasets) {
  const absl::StatusOr<v1::GetDatasetResponse> found = datasets.Get(arguments.dataset, false);
  if (!found.ok()) return found.status();
  const auto& components = found->dataset().schema().components();
  absl::StatusOr<v1::Limits> limits =
      ParseLimits(arguments.limits, {components.begin(), components.end()});
  if (!limits.ok()) return limits.status();
  v1::EpochSpec epoch;
  epoch.set_dataset(arguments.dataset);
  epoch.set_epoch(*arguments.epoch);
  epoch.set_seed(arguments.seed);
  *epoch.add_rank_groups()->add_shapes() = *std::move(limits);
  epoch.set_padding(arguments.padding);
  epoch.set_grouped(arguments.grouped);
  return epoch;
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

absl::Status ExportAll(const ExportArguments& arguments, const DatasetClient& datasets,
                       DatasetClient::TakeExported write) {
  if (arguments.epoch) {
    absl::StatusOr<v1::EpochSpec> epoch = EpochOf(arguments, datasets);
    if (!epoch.ok()) return epoch.status();
    v1::ExportEpochRequest request;
    *request.mutable_epoch() = *std::move(epoch);
    request.set_first_graph(arguments.first_graph);
    request.set_num_graphs(arguments.num_graphs);
    return datasets.ExportEpoch(request, write);
  }
  v1::ExportDatasetRequest request;
  request.set_name(arguments.dataset);
  request.set_first_graph(arguments.first_graph);
  request.set_num_graphs(arguments.num_graphs);
  return datasets.Export(request, write);
}

absl::Status Export(const ExportArguments& arguments) {
  const absl::StatusOr<std::vector<std::string>> paths = FilesToWrite(arguments.tfrecord);
  if (!paths.ok()) return paths.status();
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<std::unique_ptr<TfrecordWriter>> writer = TfrecordWriter::Create(*paths);
  if (!writer.ok()) return writer.status();
  const DatasetClient datasets(connection->servers);
  uint64_t graphs = 0;
  uint64_t bytes = 0;
  std::string schema;
  const auto write = [&](v1::ExportDatasetResponse& response) {
    if (response.has_tfgnn_schema() && schema.empty()) schema = response.tfgnn_schema().text();
    for (const std::string& example : response.examples()) {
      absl::Status written = (*writer)->Write(example);
      if (!written.ok()) return written;
      ++graphs;
      bytes += example.size();
    }
    return absl::OkStatus();
  };
  const absl::Time start = absl::Now();
  absl::Status status = ExportAll(arguments, datasets, write);
  if (status.ok()) status = (*writer)->Finish();
  if (status.ok() && !arguments.graph_schema.empty()) {
    status = WriteText(arguments.graph_schema, schema);
  }
  if (!status.ok() || arguments.quiet) return status;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  std::cout << arguments.dataset << ": wrote " << Grouped(graphs) << " graphs to " << paths->size()
            << (paths->size() == 1 ? " file; " : " files; ") << BytesText(bytes) << ", "
            << RateText(seconds > 0 ? static_cast<double>(bytes) / seconds : 0) << '\n';
  return absl::OkStatus();
}

}  // namespace

void AddExportCommand(CLI::App& app, ExitCode& code) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* const command =
      app.add_subcommand("export", "Write a data set as tf.Examples, which TF-GNN reads");
  command->add_option("dataset", arguments->dataset)->required()->type_name("NAME");
  AddServerOption(arguments->server, *command);
  command->get_option("--server")->required()->description("HOST:PORT or unix:PATH");
  command
      ->add_option("--tfrecord", arguments->tfrecord,
                   "FILE, or FILE@N for N shards; .gz is compressed")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--graph-schema", arguments->graph_schema,
                   "Also write TF-GNN's schema of the records, as text")
      ->type_name("FILE");
  CLI::Option* const epoch =
      command
          ->add_option("--epoch", arguments->epoch,
                       "Write the graphs in the order in which this epoch's batches have them; by "
                       "default in the data set's")
          ->type_name("NUMBER");
  command->add_option("--seed", arguments->seed, "The seed of the epochs")
      ->type_name("NUMBER")
      ->needs(epoch);
  AddLimitOption(arguments->limits, *command);
  CLI::Option* const limit = command->get_option("--limit");
  limit->needs(epoch);
  epoch->needs(limit);
  const std::map<std::string, v1::Padding> paddings = {{"none", v1::PADDING_NONE},
                                                       {"masked", v1::PADDING_MASKED},
                                                       {"graph", v1::PADDING_GRAPH},
                                                       {"tfgnn", v1::PADDING_TFGNN}};
  command
      ->add_option("--padding", arguments->padding,
                   "The padding that the epoch is loaded with: none, masked, graph or tfgnn")
      ->type_name("KIND")
      ->transform(CLI::CheckedTransformer(paddings).description(""))
      ->needs(epoch);
  command->add_flag("--grouped", arguments->grouped, "The epoch keeps groups together")
      ->needs(epoch);
  command->add_option("--first-graph", arguments->first_graph, "The place of the first graph")
      ->type_name("NUMBER");
  command->add_option("--num-graphs", arguments->num_graphs, "At most so many; 0: all")
      ->type_name("COUNT");
  command->add_flag("--quiet", arguments->quiet, "Print errors only");
  command->callback([arguments, &code] {
    const absl::Status status = Export(*arguments);
    code = status.ok() ? kExitOk : Fail(status);
  });
}

}  // namespace packhouse::client
