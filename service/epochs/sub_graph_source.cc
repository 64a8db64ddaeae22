#include "service/epochs/sub_graph_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"

namespace packhouse {

std::string SubGraphsRequest::Words() const {
  Digest digest;
  digest.Add(tfgnn::SamplingSpecBytes(spec));
  std::vector<std::string> words = {absl::StrCat("spec ", digest.Hex(16))};
  const auto add = [&words](absl::string_view name, const std::string& value) {
    if (!value.empty()) words.push_back(absl::StrCat(name, " \"", absl::CEscape(value), "\""));
  };
  const auto add_if = [&words](absl::string_view name, bool value) {
    if (value) words.emplace_back(name);
  };
  if (seeds_per_graph != 1) words.push_back(absl::StrCat(seeds_per_graph, " seeds a graph"));
  add("weights", options.weight_column);
  add_if("induced", options.induced);
  for (const std::string& edge_set : options.induced_edge_sets) add("induced set", edge_set);
  add("node times", options.node_time_column);
  add("edge times", options.edge_time_column);
  add_if("latest", options.latest);
  add("links of", options.link_node_set);
  add_if("readout", options.readout);
  add_if("without features", !payload.features);
  add_if("numbers", payload.numbers);
  add_if("ids", payload.ids);
  return absl::StrJoin(words, ", ");
}

absl::StatusOr<std::shared_ptr<const SubGraphSource>> SubGraphSource::Create(
    std::shared_ptr<const SourceGraph> graph, SubGraphsRequest request) {
  if (request.seeds_per_graph == 0 ||
      request.seeds_per_graph > SubGraphsRequest::kMaxSeedsPerGraph) {
    return absl::InvalidArgumentError(absl::StrCat("seeds_per_graph: ", request.seeds_per_graph,
                                                   ", must be 1 to ",
                                                   SubGraphsRequest::kMaxSeedsPerGraph));
  }
  PH_ASSIGN_OR_RETURN(SamplingPlan plan,
                      SamplingPlan::Create(graph->schema(), request.spec, request.options));
  if (!plan.readout_columns().empty()) {
    return absl::InvalidArgumentError(
        "sub_graphs: the schema's node set '_readout' has features; links with features of their "
        "own "
        "cannot be drawn");
  }
  PH_ASSIGN_OR_RETURN(
      Sampler sampler,
      Sampler::Create(std::make_shared<const SamplingPlan>(std::move(plan)), graph.get()));
  PH_ASSIGN_OR_RETURN(SampledSchema schema,
                      SampledSchema::Create(sampler.plan(), *graph, request.payload));
  return std::shared_ptr<const SubGraphSource>(new SubGraphSource(
      std::move(graph), std::move(request), std::move(sampler), std::move(schema)));
}

size_t SubGraphSource::seed_node_set() const {
  return sampler_.plan().node_sets()[sampler_.plan().seed_set()];
}

absl::Status SubGraphSource::CheckSeeds(const SeedList& seeds) const {
  const size_t per_row = sampler_.plan().seeds_per_row();
  const uint64_t num_nodes = graph_->num_nodes(seed_node_set());
  if (seeds.nodes == nullptr) {
    if (per_row != 1) {
      return absl::InvalidArgumentError("seeds: links must be listed");
    }
  } else {
    if (seeds.nodes->size() % per_row != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("seeds: ", seeds.nodes->size(), " ends of links, must be an even number"));
    }
    const auto bad = std::find_if(seeds.nodes->begin(), seeds.nodes->end(),
                                  [num_nodes](uint32_t node) { return node >= num_nodes; });
    if (bad != seeds.nodes->end()) {
      return absl::OutOfRangeError(absl::StrCat(
          "seeds: node ", *bad, " at position ", bad - seeds.nodes->begin(), ", node set '",
          graph_->schema().node_sets()[seed_node_set()].name, "' has ", num_nodes, " nodes"));
    }
  }
  if (!seeds.times.empty() && seeds.times.size() != NumGraphs(seeds)) {
    return absl::InvalidArgumentError(absl::StrCat("seeds.times: ", seeds.times.size(),
                                                   " of them, the seeds make ", NumGraphs(seeds),
                                                   " sub-graphs"));
  }
  return absl::OkStatus();
}

uint64_t SubGraphSource::NumSeeds(const SeedList& seeds) const {
  if (seeds.nodes == nullptr) return graph_->num_nodes(seed_node_set());
  return seeds.nodes->size() / sampler_.plan().seeds_per_row();
}

absl::StatusOr<SubGraphDrawer> SubGraphDrawer::Create(std::shared_ptr<const SubGraphSource> source,
                                                      std::vector<uint32_t> limits,
                                                      MemoryBudget* memory,
                                                      SamplingObserver* observer) {
  SubGraphDrawer drawer(std::move(source));
  drawer.limits_ = std::move(limits);
  drawer.observer_ = observer;
  if (memory != nullptr) {
    const Sampler& sampler = drawer.source_->sampler();
    SampledCounts most = sampler.UpperBound(drawer.source_->nodes_per_graph());
    // Components begin with the node sets and edge sets in the order of the plan; a draw ends at
    // the first row beyond a limit.
    const auto bound = [&](std::vector<uint64_t>& counts) {
      for (uint64_t& count : counts) count = std::min(count, SubGraphSource::kMaxRows);
    };
    bound(most.nodes);
    bound(most.edges);
    PH_ASSIGN_OR_RETURN(drawer.memory_,
                        memory->Hold("drawing sub-graphs", sampler.DrawBytes(most)));
  }
  return drawer;
}

absl::Status SubGraphDrawer::Next(const Draw& draw) {
  DrawRequest request;
  request.seed_number = draw.seed_number;
  request.epoch = draw.epoch;
  request.seeds = draw.seeds;
  request.time = draw.time;
  request.level = draw.level;
  request.max_rows = SubGraphSource::kMaxRows;
  request.edge_numbers = draw.edge_numbers;
  PH_RETURN_IF_ERROR(source_->sampled_schema().DrawWithin(source_->sampler(), request, limits_,
                                                          scratch_, sampled_, tuple_));
  if (observer_ != nullptr) {
    observer_->OnDrawn(draw.seeds.size(), sampled_.num_nodes(), sampled_.num_edges(),
                       sampled_.level);
  }
  return absl::OkStatus();
}

absl::StatusOr<GraphChunk> WithGraphIds(GraphChunk chunk, std::vector<uint64_t> ids) {
  const auto rows = std::make_shared<const GraphChunk>(std::move(chunk));
  const GraphSchema& schema = rows->schema();
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < rows->num_graphs(); ++i) {
    const auto tuple = rows->sizes().tuple(i);
    counts.insert(counts.end(), tuple.begin(), tuple.end());
  }
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTable::WithIds(rows->num_graphs(), schema.num_components(),
                                         std::move(counts), std::move(ids)));
  std::vector<absl::string_view> columns;
  for (size_t t = 0; t < rows->num_columns(); ++t) columns.push_back(rows->column(t));
  return GraphChunk::CreateTrusted(&schema, std::move(sizes), std::move(columns), rows);
}

}  // namespace packhouse
