// packhouse tfgnn size-constraints: the shapes that TF-GNN would pad batches to, and what packing
// into the same shapes saves.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/call.h"
#include "client/graph/files/graph_sizes.h"
#include "client/graph/tfgnn/tfgnn_commands.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "service/base/command_line/table.h"
#include "service/wings/tfgnn/size_constraints.h"

namespace packhouse::client {
namespace {

struct ConstraintsArguments {
  TfgnnArguments common;
  std::string server;
  tfgnn::LearnOptions learn{.batch_size = 32, .success_ratio = 0.95};
  uint64_t seed = 0;
};

struct Shape {
  std::string name;
  tfgnn::SizeConstraints constraints;
};

// The limits of a pack that fits a shape: what TF-GNN needs for padding is kept free.
v1::Limits UsableLimits(const tfgnn::GraphSets& sets, const tfgnn::SizeConstraints& shape) {
  v1::Limits limits;
  const auto add = [&limits](absl::string_view component, uint64_t rows) {
    v1::Capacity& capacity = *limits.add_capacities();
    capacity.set_component(std::string(component));
    // 0 would be no limit; a set without rows does not matter.
    capacity.set_rows(std::max<uint64_t>(rows, 1));
  };
  std::vector<bool> is_end(sets.node_sets().size());
  for (const tfgnn::EdgeSet& edges : sets.edge_sets()) {
    is_end[edges.source_set] = is_end[edges.target_set] = true;
  }
  for (std::size_t s = 0; s < is_end.size(); ++s) {
    add(sets.node_sets()[s].name, shape.total_nodes[s] - (is_end[s] ? 1 : 0));
  }
  for (std::size_t s = 0; s < sets.edge_sets().size(); ++s) {
    add(sets.edge_sets()[s].name, shape.total_edges[s]);
  }
  add(kGraphs, shape.total_graphs - 1);
  return limits;
}

// The number of packs; nullopt if some graph does not fit.
absl::StatusOr<std::optional<uint64_t>> PacksOfPlan(const CallWay& way,
                                                    const v1::Histogram& histogram,
                                                    const v1::Limits& limits) {
  v1::PlanRequest request;
  *request.mutable_histogram() = histogram;
  *request.mutable_limits() = limits;
  request.set_summaries_only(true);
  const auto response = Call(way, &v1::PlanningService::Stub::Plan, request);
  if (absl::IsOutOfRange(response.status())) return std::nullopt;
  if (!response.ok()) return response.status();
  return response->best().packs();
}

ExitCode RunConstraints(const ConstraintsArguments& arguments) {
  const absl::StatusOr<tfgnn::GraphSets> sets = ReadGraphSets(arguments.common.graph_schema);
  if (!sets.ok()) return Fail(sets.status());
  // All components, for the constraints; those of sets, for the plan.
  const std::size_t num_sets = sets->node_sets().size() + sets->edge_sets().size();
  std::vector<uint32_t> counts;
  GraphSizes sizes;
  for (const tfgnn::RowSet& set : sets->node_sets()) sizes.components.push_back(set.name);
  for (const tfgnn::EdgeSet& set : sets->edge_sets()) sizes.components.push_back(set.name);
  const absl::Status read = ForEachExample(
      *sets, arguments.common.examples, [&](const GraphChunk& graph, absl::string_view) {
        const auto tuple = graph.sizes().tuple(0);
        counts.insert(counts.end(), tuple.begin(), tuple.end());
        // Sets are the first components.
        sizes.values.insert(sizes.values.end(), tuple.begin(),
                            tuple.begin() + static_cast<std::ptrdiff_t>(num_sets));
        ++sizes.num_rows;
        return absl::OkStatus();
      });
  if (!read.ok()) return Fail(read);
  const absl::StatusOr<SizesView> view =
      SizesView::Create(sizes.num_rows, sets->schema().num_components(), counts);
  if (!view.ok()) return Fail(view.status());
  const absl::StatusOr<tfgnn::SizeConstraints> tight =
      tfgnn::FindTightSizeConstraints(*sets, *view, arguments.learn.batch_size);
  if (!tight.ok()) return Fail(tight.status());
  SeededRandom random(arguments.seed);
  const absl::StatusOr<tfgnn::SizeConstraints> learned =
      tfgnn::LearnFitOrSkipSizeConstraints(*sets, *view, arguments.learn, random);
  if (!learned.ok()) return Fail(learned.status());
  const Shape shapes[] = {{"tight", *tight}, {"fit or skip", *learned}};

  const absl::StatusOr<v1::Histogram> histogram = MakeHistogram(sizes);
  if (!histogram.ok()) return Fail(histogram.status());
  const absl::StatusOr<ServerConnection> connection = ConnectToServer(arguments.server);
  if (!connection.ok()) return Fail(connection.status());
  const CallWay once = Once(connection->servers.current(), kCallTimeout);
  TextTable totals({{"total", ""}, {"tight", ""}, {"fit or skip", ""}});
  const auto add = [&](const std::string& name, auto total) {
    totals.AddRow({name, absl::StrCat(total(*tight)), absl::StrCat(total(*learned))});
  };
  add("graphs", [](const tfgnn::SizeConstraints& shape) { return shape.total_graphs; });
  for (std::size_t s = 0; s < sets->node_sets().size(); ++s) {
    add(sets->node_sets()[s].name,
        [s](const tfgnn::SizeConstraints& shape) { return shape.total_nodes[s]; });
  }
  for (std::size_t s = 0; s < sets->edge_sets().size(); ++s) {
    add(sets->edge_sets()[s].name,
        [s](const tfgnn::SizeConstraints& shape) { return shape.total_edges[s]; });
  }
  const uint64_t fixed =
      (sizes.num_rows + arguments.learn.batch_size - 1) / arguments.learn.batch_size;
  TextTable batches(
      {{"shape", ""}, {"batches of TF-GNN", ""}, {"batches of packhouse", ""}, {"saved", ""}});
  for (const Shape& shape : shapes) {
    // As many graphs as fit, not a fixed number: that is what packing changes. A row of the context
    // costs little beside the nodes and edges of a graph.
    v1::Limits limits = UsableLimits(*sets, shape.constraints);
    limits.mutable_capacities()->rbegin()->set_rows(
        std::max<uint64_t>(sizes.num_rows, arguments.learn.batch_size));
    const absl::StatusOr<std::optional<uint64_t>> packs = PacksOfPlan(once, *histogram, limits);
    if (!packs.ok()) return Fail(packs.status());
    const bool skips = &shape != &shapes[0];
    batches.AddRow(
        {shape.name, absl::StrCat(Grouped(fixed), skips ? ", some skipped" : ""),
         *packs ? Grouped(**packs) : "a graph does not fit",
         *packs ? absl::StrCat(
                      Percent(1 - static_cast<double>(**packs) / static_cast<double>(fixed)), " %")
                : ""});
  }
  std::cout
      << Grouped(sizes.num_rows) << " graphs, " << arguments.learn.batch_size
      << " a batch; TF-GNN's totals include room for padding\n\n"
      << totals.Render() << '\n'
      << batches.Render()
      << "packhouse puts as many graphs into each batch as fit the totals of nodes and edges; "
         "only the total of graphs is larger then\n";
  return kExitOk;
}

}  // namespace

void AddTfgnnSizeConstraints(CLI::App& tfgnn, ExitCode& code) {
  auto arguments = std::make_shared<ConstraintsArguments>();
  CLI::App* const command = tfgnn.add_subcommand(
      "size-constraints",
      "Show the shapes that TF-GNN would pad batches to (find_tight_size_constraints, "
      "learn_fit_or_skip_size_constraints), and how many batches packhouse needs in them");
  AddExamplesOptions(arguments->common, *command);
  AddServerOption(arguments->server, kOwnServer, *command);
  command->add_option("--batch-size", arguments->learn.batch_size, "Graphs a batch, for TF-GNN")
      ->type_name("COUNT")
      ->capture_default_str();
  command
      ->add_option("--success-ratio", arguments->learn.success_ratio,
                   "The share of random batches that fits; the others are skipped")
      ->type_name("RATIO")
      ->capture_default_str();
  command->add_option("--sample-size", arguments->learn.sample_size, "Random batches to learn from")
      ->type_name("COUNT")
      ->capture_default_str();
  command
      ->add_option("--num-thresholds", arguments->learn.num_thresholds, "Candidates to choose from")
      ->type_name("COUNT")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Of the random batches")
      ->type_name("NUMBER")
      ->capture_default_str();
  command->callback([arguments, &code] { code = RunConstraints(*arguments); });
}

}  // namespace packhouse::client
