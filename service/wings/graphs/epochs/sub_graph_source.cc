#include "service/wings/graphs/epochs/sub_graph_source.h"

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
  add_if("merge parallel", options.merge_parallel);
  add("node times", options.node_time_column);
  add("edge times", options.edge_time_column);
  for (const std::string& set : options.untimed_sets) add("untimed set", set);
  add_if("latest", options.latest);
  if (options.time_window != 0) words.push_back(absl::StrCat("time window ", options.time_window));
  add("links of", options.link_node_set);
  add("links as", options.link_edge_set);
  add_if("without its links", options.exclude == ExcludeLinks::kSelf);
  add_if("without its links and their reverse", options.exclude == ExcludeLinks::kReverseTypes);
  for (const std::string& set : options.reverse_edge_sets) add("reverse set", set);
  add_if("readout", options.readout);
  for (const SourceColumnSpec& column : options.readout_columns) {
    add("readout column", absl::StrCat(column.name, " ", static_cast<int>(column.dtype), " [",
                                       absl::StrJoin(column.row_shape, ","), "]"));
  }
  add_if("without features", !payload.features);
  add_if("numbers", payload.numbers);
  add_if("rows", payload.rows);
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
  PH_ASSIGN_OR_RETURN(
      Sampler sampler,
      Sampler::Create(std::make_shared<const SamplingPlan>(std::move(plan)), graph.get()));
  PH_ASSIGN_OR_RETURN(SampledSchema schema,
                      SampledSchema::Create(sampler.plan(), *graph, request.payload));
  return std::shared_ptr<const SubGraphSource>(new SubGraphSource(
      std::move(graph), std::move(request), std::move(sampler), std::move(schema)));
}

size_t SubGraphSource::seed_node_set(size_t end) const {
  return sampler_.plan().node_sets()[sampler_.plan().seed_set(end)];
}

absl::Status SubGraphSource::CheckSeeds(const SeedList& seeds) const {
  const size_t per_row = sampler_.plan().seeds_per_row();
  if (seeds.nodes == nullptr) {
    if (per_row != 1) {
      return absl::InvalidArgumentError("seeds: links must be listed");
    }
  } else {
    if (seeds.nodes->size() % per_row != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("seeds: ", seeds.nodes->size(), " ends of links, must be an even number"));
    }
    const uint64_t num_nodes[] = {graph_->num_nodes(seed_node_set(0)),
                                  graph_->num_nodes(seed_node_set(1))};
    for (size_t i = 0; i < seeds.nodes->size(); ++i) {
      const size_t end = i % per_row;
      if ((*seeds.nodes)[i] < num_nodes[end]) continue;
      return absl::OutOfRangeError(
          absl::StrCat("seeds: node ", (*seeds.nodes)[i], " at position ", i, ", node set '",
                       graph_->schema().node_sets()[seed_node_set(end)].name, "' has ",
                       num_nodes[end], " nodes"));
    }
  }
  if (!seeds.occurrences.empty() && seeds.occurrences.size() != NumSeeds(seeds)) {
    return absl::InvalidArgumentError(absl::StrCat("seeds.occurrences: ", seeds.occurrences.size(),
                                                   " of them, there are ", NumSeeds(seeds),
                                                   per_row == 1 ? " seeds" : " links"));
  }
  const SamplingOptions& options = request_.options;
  if (!seeds.times.empty() && options.node_time_column.empty() &&
      options.edge_time_column.empty()) {
    return absl::InvalidArgumentError(
        "seeds.times: given, but neither node_time_column nor edge_time_column is: nothing would "
        "be left out");
  }
  if (!seeds.times.empty() && seeds.times.size() != NumGraphs(seeds)) {
    return absl::InvalidArgumentError(absl::StrCat("seeds.times: ", seeds.times.size(),
                                                   " of them, the seeds make ", NumGraphs(seeds),
                                                   " sub-graphs"));
  }
  if (seeds.readout == nullptr) return absl::OkStatus();
  const auto columns = sampler_.plan().readout_columns();
  if (seeds.readout->size() != columns.size()) {
    return absl::InvalidArgumentError(absl::StrCat("seeds.readout: ", seeds.readout->size(),
                                                   " columns, `_readout` has ", columns.size()));
  }
  for (size_t c = 0; c < columns.size(); ++c) {
    const uint64_t bytes = NumSeeds(seeds) * SourceStepBytes(columns[c]);
    if ((*seeds.readout)[c].size() == bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat("seeds.readout: column '", columns[c].name,
                                                   "' has ", (*seeds.readout)[c].size(), " bytes, ",
                                                   NumSeeds(seeds), " rows take ", bytes));
  }
  return absl::OkStatus();
}

absl::Status SubGraphSource::CheckHasReadout(const SeedList& seeds) const {
  const auto columns = sampler_.plan().readout_columns();
  if (seeds.readout != nullptr || columns.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "seeds.readout: empty, but `_readout` has features, '", columns[0].name, "' the first"));
}

uint64_t SubGraphSource::NumSeeds(const SeedList& seeds) const {
  if (seeds.nodes == nullptr) return graph_->num_nodes(seed_node_set());
  return seeds.nodes->size() / sampler_.plan().seeds_per_row();
}

absl::StatusOr<SubGraphDrawer> SubGraphDrawer::Create(std::shared_ptr<const SubGraphSource> source,
                                                      MemoryBudget* memory,
                                                      SamplingObserver* observer) {
  SubGraphDrawer drawer(std::move(source));
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
  request.occurrences = draw.occurrences;
  request.time = draw.time;
  request.level = draw.level;
  request.max_rows = SubGraphSource::kMaxRows;
  request.edge_numbers = draw.edge_numbers;
  PH_RETURN_IF_ERROR(source_->sampled_schema().DrawWithin(source_->sampler(), request, draw.limits,
                                                          scratch_, sampled_, tuple_));
  if (observer_ != nullptr) {
    observer_->OnDrawn(draw.seeds.size(), sampled_.num_nodes(), sampled_.num_edges(),
                       sampled_.level);
  }
  return absl::OkStatus();
}

ReadoutRows SeedReadout::Gather(const SubGraphSource& source, const SeedList& seeds,
                                absl::Span<const uint64_t> rows) {
  views_.clear();
  if (seeds.readout == nullptr) return views_;
  const auto columns = source.sampler().plan().readout_columns();
  gathered_.resize(columns.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    const uint64_t row_bytes = SourceStepBytes(columns[c]);
    gathered_[c].clear();
    for (const uint64_t row : rows) {
      gathered_[c].append((*seeds.readout)[c], row * row_bytes, row_bytes);
    }
    views_.emplace_back(gathered_[c]);
  }
  return views_;
}

ReadoutRows SeedReadout::Gather(const SubGraphSource& source, const SeedList& seeds, uint64_t begin,
                                uint64_t end) {
  views_.clear();
  if (seeds.readout == nullptr) return views_;
  const auto columns = source.sampler().plan().readout_columns();
  for (size_t c = 0; c < columns.size(); ++c) {
    const uint64_t row_bytes = SourceStepBytes(columns[c]);
    views_.push_back(absl::string_view((*seeds.readout)[c])
                         .substr(begin * row_bytes, (end - begin) * row_bytes));
  }
  return views_;
}

absl::StatusOr<GraphChunk> WithGraphIds(GraphChunk chunk, std::vector<uint64_t> ids,
                                        bool may_repeat) {
  const auto rows = std::make_shared<const GraphChunk>(std::move(chunk));
  const GraphSchema& schema = rows->schema();
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < rows->num_graphs(); ++i) {
    const auto tuple = rows->sizes().tuple(i);
    counts.insert(counts.end(), tuple.begin(), tuple.end());
  }
  const auto with_ids = may_repeat ? SizeTable::WithAnyIds : SizeTable::WithIds;
  PH_ASSIGN_OR_RETURN(SizeTable sizes, with_ids(rows->num_graphs(), schema.num_components(),
                                                std::move(counts), std::move(ids)));
  std::vector<absl::string_view> columns;
  for (size_t t = 0; t < rows->num_columns(); ++t) columns.push_back(rows->column(t));
  return GraphChunk::CreateTrusted(&schema, std::move(sizes), std::move(columns), rows);
}

}  // namespace packhouse
