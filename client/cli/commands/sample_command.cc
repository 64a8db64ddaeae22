#include "client/cli/commands/sample_command.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/files/input_file.h"
#include "client/cli/reports/histogram_summary.h"
#include "client/cpp/sampling_client.h"

namespace packhouse::client {
namespace {

struct SampleArguments {
  std::string server;
  std::string graph;
  std::string spec;
  std::vector<std::string> limits;
  std::string histogram;
  std::string dataset;
  uint32_t num_graphs = 0;
  uint32_t seeds_per_graph = 0;
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t max_bytes = 0;
  bool ids_only = false;
  bool refuse = false;
};

absl::StatusOr<v1::SubGraphs> SubGraphsOf(const SampleArguments& arguments) {
  absl::StatusOr<std::string> spec = ReadInputFile(arguments.spec);
  if (!spec.ok()) {
    return absl::Status(spec.status().code(), absl::StrCat("--spec: ", spec.status().message()));
  }
  v1::SubGraphs sub_graphs;
  sub_graphs.set_graph(arguments.graph);
  // The server takes either form.
  sub_graphs.set_binary(*std::move(spec));
  sub_graphs.set_seeds_per_graph(arguments.seeds_per_graph);
  if (arguments.ids_only) {
    sub_graphs.set_without_features(true);
    sub_graphs.set_numbers(true);
    sub_graphs.set_rows(true);
    sub_graphs.set_ids(true);
  }
  return sub_graphs;
}

absl::Status Estimate(const SampleArguments& arguments, const SamplingClient& client) {
  v1::EstimateSizesRequest request;
  const absl::StatusOr<v1::SubGraphs> sub_graphs = SubGraphsOf(arguments);
  if (!sub_graphs.ok()) return sub_graphs.status();
  *request.mutable_sub_graphs() = *sub_graphs;
  request.set_seed(arguments.seed);
  request.set_epoch(arguments.epoch);
  request.set_num_graphs(arguments.num_graphs);
  request.set_histogram(arguments.histogram);
  const absl::StatusOr<v1::EstimateSizesResponse> response = client.EstimateSizes(request);
  if (!response.ok()) return response.status();
  const absl::StatusOr<std::string> summary = HistogramSummary(response->histogram());
  if (!summary.ok()) return summary.status();
  std::cout << absl::StrFormat("%d of %d sub-graphs around %d seeds, %.0f bytes each\n\n",
                               response->histogram().num_graphs(), response->num_graphs(),
                               response->num_seeds(), response->bytes_per_graph())
            << *summary;
  return absl::OkStatus();
}

absl::Status SampleDataset(const SampleArguments& arguments, const SamplingClient& client) {
  v1::SampleDatasetRequest request;
  const absl::StatusOr<v1::SubGraphs> sub_graphs = SubGraphsOf(arguments);
  if (!sub_graphs.ok()) return sub_graphs.status();
  *request.mutable_sub_graphs() = *sub_graphs;
  request.set_seed(arguments.seed);
  request.set_epoch(arguments.epoch);
  request.set_dataset(arguments.dataset);
  request.set_max_bytes(arguments.max_bytes);
  if (arguments.refuse) request.set_beyond_limits(v1::BEYOND_LIMITS_REFUSE);
  for (const std::string& limit : arguments.limits) {
    const size_t at = limit.rfind('=');
    uint64_t rows = 0;
    if (at == std::string::npos || !absl::SimpleAtoi(limit.substr(at + 1), &rows)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--limit: '", limit, "' is not COMPONENT=ROWS"));
    }
    v1::Capacity& capacity = *request.add_max_rows();
    capacity.set_component(limit.substr(0, at));
    capacity.set_rows(rows);
  }
  const auto response =
      client.SampleDataset(request, [](const v1::SampleDatasetResponse& progress) {
        std::cerr << absl::StrFormat("\r%d of %d sub-graphs", progress.num_graphs(),
                                     progress.num_graphs_total())
                  << std::flush;
      });
  std::cerr << "\n";
  if (!response.ok()) return response.status();
  std::cout << absl::StrFormat(
      "data set '%s': %d sub-graphs, %d bytes; %d drawn smaller by this call\n",
      response->dataset().name(), response->dataset().num_graphs(), response->dataset().num_bytes(),
      response->num_drawn_smaller());
  return absl::OkStatus();
}

ExitCode RunSample(const SampleArguments& arguments,
                   absl::Status (*run)(const SampleArguments&, const SamplingClient&)) {
  const absl::StatusOr<ServerConnection> server = ConnectToServer(arguments.server);
  if (!server.ok()) return Fail(server.status());
  const absl::Status done = run(arguments, SamplingClient(server->channel));
  return done.ok() ? kExitOk : Fail(done);
}

void AddCommonOptions(SampleArguments& arguments, CLI::App& command) {
  command.add_option("--server", arguments.server, "HOST:PORT or unix:PATH of the server")
      ->required();
  command.add_option("--graph", arguments.graph, "the source graph, which must be sealed")
      ->required();
  command.add_option("--spec", arguments.spec, "file with a TF-GNN SamplingSpec, text or binary")
      ->required();
  command.add_option("--seed", arguments.seed, "the number that decides the draw");
  command.add_option("--epoch", arguments.epoch, "another epoch, another draw");
  command.add_option("--seeds-per-graph", arguments.seeds_per_graph,
                     "seeds that share a sub-graph; by default 1");
  command.add_flag("--ids-only", arguments.ids_only,
                   "rows, numbers and ids of nodes and edges instead of features");
}

}  // namespace

void AddSampleCommand(CLI::App& app, ExitCode& code) {
  CLI::App& sample =
      *app.add_subcommand("sample", "Draws sub-graphs around nodes of a large graph");
  sample.require_subcommand(1);
  const auto arguments = std::make_shared<SampleArguments>();
  CLI::App& estimate = *sample.add_subcommand("estimate", "Draws some, and shows their sizes");
  AddCommonOptions(*arguments, estimate);
  estimate.add_option("--graphs", arguments->num_graphs, "how many are drawn; by default 2000");
  estimate.add_option("--histogram", arguments->histogram,
                      "counts the sizes in the histogram of this name, for plan and tune");
  estimate.callback([arguments, &code] { code = RunSample(*arguments, Estimate); });
  CLI::App& dataset = *sample.add_subcommand(
      "dataset",
      "Draws one around every node of the seeds' set into a data set; goes on where an "
      "earlier call ended");
  AddCommonOptions(*arguments, dataset);
  dataset.add_option("--dataset", arguments->dataset, "the name of the data set")->required();
  dataset.add_option("--max-bytes", arguments->max_bytes,
                     "the most bytes that it may take on disk");
  AddLimitOption(arguments->limits, dataset);
  dataset.add_flag("--refuse", arguments->refuse,
                   "a sub-graph beyond a limit is an error, instead of being drawn smaller");
  dataset.callback([arguments, &code] { code = RunSample(*arguments, SampleDataset); });
}

}  // namespace packhouse::client
