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
#include "client/cli/reports/histogram_summary.h"
#include "client/cli/source_graphs/seeds_file.h"
#include "client/cpp/sampling_client.h"
#include "client/cpp/source_graph_client.h"
#include "client/graph/files/input_file.h"

namespace packhouse::client {
namespace {

struct SampleArguments {
  std::string server;
  std::string graph;
  std::string spec;
  std::vector<std::string> limits;
  std::string histogram;
  std::string dataset;
  SeedsFileOptions seeds;
  std::string node_time_column;
  std::string edge_time_column;
  std::vector<std::string> untimed_sets;
  uint64_t time_window = 0;
  std::string weight_column;
  std::string link_node_set;
  std::string link_edge_set;
  std::string exclude;
  std::vector<std::string> reverse_edge_sets;
  std::vector<std::string> induced_edge_sets;
  std::vector<std::string> readout_columns;
  bool latest = false;
  bool induced = false;
  bool merge_parallel = false;
  bool readout = false;
  uint32_t num_graphs = 0;
  uint32_t seeds_per_graph = 0;
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t max_bytes = 0;
  bool ids_only = false;
  bool refuse = false;
};

v1::ExcludeLinks ExcludeOf(const std::string& exclude) {
  if (exclude == "self") return v1::EXCLUDE_LINKS_SELF;
  return exclude == "reverse-types" ? v1::EXCLUDE_LINKS_REVERSE_TYPES
                                    : v1::EXCLUDE_LINKS_UNSPECIFIED;
}

// Options of the draw that go to the server as they are.
void SetDraw(const SampleArguments& arguments, v1::SubGraphs& sub_graphs) {
  sub_graphs.set_induced(arguments.induced || !arguments.induced_edge_sets.empty());
  for (const std::string& set : arguments.induced_edge_sets) sub_graphs.add_induced_edge_sets(set);
  sub_graphs.set_merge_parallel(arguments.merge_parallel);
  sub_graphs.set_node_time_column(arguments.node_time_column);
  sub_graphs.set_edge_time_column(arguments.edge_time_column);
  for (const std::string& set : arguments.untimed_sets) sub_graphs.add_untimed_sets(set);
  sub_graphs.set_time_window(arguments.time_window);
  sub_graphs.set_latest(arguments.latest);
  sub_graphs.set_weight_column(arguments.weight_column);
  sub_graphs.set_link_node_set(arguments.link_node_set);
  sub_graphs.set_link_edge_set(arguments.link_edge_set);
  sub_graphs.set_exclude(ExcludeOf(arguments.exclude));
  for (const std::string& set : arguments.reverse_edge_sets) sub_graphs.add_reverse_edge_sets(set);
  sub_graphs.set_readout(arguments.readout);
}

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
  SetDraw(arguments, sub_graphs);
  const absl::Status columns = AddReadoutColumns(arguments.readout_columns, sub_graphs);
  if (!columns.ok()) return columns;
  if (!arguments.seeds.negatives.empty() && sub_graphs.readout_columns().empty()) {
    const absl::Status label = AddReadoutColumns({kLabelOfLinks}, sub_graphs);
    if (!label.ok()) return label;
  }
  if (arguments.ids_only) {
    sub_graphs.set_without_features(true);
    sub_graphs.set_numbers(true);
    sub_graphs.set_rows(true);
    sub_graphs.set_ids(true);
  }
  return sub_graphs;
}

// Sets what both requests have: which sub-graphs, around which seeds.
template <typename Request>
absl::Status SetSubGraphs(const SampleArguments& arguments, const SourceGraphClient& graphs,
                          Request& request) {
  absl::StatusOr<v1::SubGraphs> sub_graphs = SubGraphsOf(arguments);
  if (!sub_graphs.ok()) return sub_graphs.status();
  if (!arguments.seeds.path.empty()) {
    SeedsFileOptions options = arguments.seeds;
    options.seed = arguments.seed;
    absl::StatusOr<v1::Seeds> seeds = ReadSeedsFile(options, *sub_graphs, graphs);
    if (!seeds.ok()) return seeds.status();
    *request.mutable_seeds() = *std::move(seeds);
  }
  *request.mutable_sub_graphs() = *std::move(sub_graphs);
  return absl::OkStatus();
}

absl::Status Estimate(const SampleArguments& arguments, const SamplingClient& client,
                      const SourceGraphClient& graphs) {
  v1::EstimateSizesRequest request;
  const absl::Status set = SetSubGraphs(arguments, graphs, request);
  if (!set.ok()) return set;
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

absl::Status SampleDataset(const SampleArguments& arguments, const SamplingClient& client,
                           const SourceGraphClient& graphs) {
  v1::SampleDatasetRequest request;
  const absl::Status set = SetSubGraphs(arguments, graphs, request);
  if (!set.ok()) return set;
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
                   absl::Status (*run)(const SampleArguments&, const SamplingClient&,
                                       const SourceGraphClient&)) {
  const absl::StatusOr<ServerConnection> server = ConnectToServer(arguments.server);
  if (!server.ok()) return Fail(server.status());
  const absl::Status done =
      run(arguments, SamplingClient(server->servers), SourceGraphClient(server->channel));
  return done.ok() ? kExitOk : Fail(done);
}

void AddSeedsOptions(SampleArguments& arguments, CLI::App& command) {
  SeedsFileOptions& seeds = arguments.seeds;
  CLI::Option* const file = command.add_option(
      "--seeds", seeds.path,
      "CSV with a header: a column 'id' ('row', 'number') of nodes, or 'source' and 'target' of "
      "links; 'time'; readout columns. By default all nodes of the seeds' set");
  command.add_option("--seeds-by", seeds.by, "what --seeds calls nodes by; by default id")
      ->check(CLI::IsMember({"id", "row", "number"}))
      ->needs(file);
  CLI::Option* const negatives =
      command
          .add_option("--negatives", seeds.negatives,
                      "draws links that are not in --seeds: 'binary', both ends, or 'triplet', the "
                      "targets; their feature 'label' is 0, that of the others 1")
          ->check(CLI::IsMember({"binary", "triplet"}))
          ->needs(file);
  command.add_option("--negatives-per-link", seeds.amount, "by default 1")->needs(negatives);
  command
      .add_option("--avoid", seeds.avoid,
                  "CSV of links, as --seeds, that a negative one must not be; by default it may be "
                  "any, as with PyG")
      ->needs(negatives);
  command.add_flag("--readout", arguments.readout,
                   "a node set '_readout' with a row for each seed; links have it always");
  command
      .add_option("--readout-column", arguments.readout_columns,
                  "NAME=DTYPE, a feature of '_readout' from the column NAME of --seeds; may be "
                  "repeated")
      ->needs(file);
}

void AddDrawOptions(SampleArguments& arguments, CLI::App& command) {
  command.add_option("--link-edge-set", arguments.link_edge_set,
                     "the edge set whose edges the links are or would be");
  command.add_option("--link-node-set", arguments.link_node_set,
                     "instead of it: the node set of both ends of links");
  command
      .add_option("--exclude", arguments.exclude,
                  "'self': the edges that a sub-graph's own links are are not drawn; "
                  "'reverse-types': nor those back")
      ->check(CLI::IsMember({"self", "reverse-types"}));
  command.add_option("--reverse-edge-set", arguments.reverse_edge_sets,
                     "for --exclude reverse-types: one more set of edges back; may be repeated");
  CLI::Option* const of_nodes =
      command.add_option("--node-time-column", arguments.node_time_column,
                         "temporal: an edge is as late as the node that it leads to");
  command
      .add_option("--edge-time-column", arguments.edge_time_column,
                  "temporal: no edge later than the sub-graph's time ('time' in --seeds)")
      ->excludes(of_nodes);
  command.add_option("--untimed-set", arguments.untimed_sets,
                     "a set without the time column, which is never late; may be repeated");
  command.add_option("--time-window", arguments.time_window,
                     "no edge that is more than this earlier than the sub-graph's time");
  command.add_flag("--latest", arguments.latest, "the latest edges instead of random ones");
  command.add_option("--weight-column", arguments.weight_column,
                     "of TOP_K and RANDOM_WEIGHTED; by default #weight, or else weight");
  command.add_flag("--induced", arguments.induced, "all edges between nodes that were drawn");
  command.add_option("--induced-edge-set", arguments.induced_edge_sets,
                     "of this edge set only; may be repeated");
  command.add_flag("--merge-parallel", arguments.merge_parallel,
                   "of parallel edges that are drawn one is there, as in TF-GNN");
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
  AddSeedsOptions(arguments, command);
  AddDrawOptions(arguments, command);
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
      "Draws one around every seed into a data set; goes on where an earlier call ended");
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
