#include "service/wings/graphs/sampling/sampler.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/sampling/draw_random.h"
#include "service/wings/graphs/sampling/drawing.h"

namespace packhouse {
namespace {

// Of a set's columns the one with this name, as numbers; one that does not exist if there is none.
// Draws read any of them: all are checked.
absl::StatusOr<NumberColumn> NumbersNamed(const std::vector<SourceColumnSpec>& columns,
                                          absl::string_view name, const auto& column_at) {
  if (name.empty()) return NumberColumn();
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].name != name) continue;
    const SourceColumn column = column_at(c);
    PH_RETURN_IF_ERROR(column.CheckAll());
    return NumberColumn(column, columns[c].dtype);
  }
  return NumberColumn();
}

absl::StatusOr<NumberColumn> NodeNumbers(const SourceGraph& graph, size_t node_set,
                                         absl::string_view name) {
  return NumbersNamed(graph.schema().node_sets()[node_set].columns, name,
                      [&](size_t c) { return graph.NodeColumn(node_set, c); });
}

const std::vector<SourceColumnSpec>& EdgeColumns(const SourceGraph& graph, size_t edge_set) {
  const SourceEdgeSetSpec& set = graph.schema().edge_sets()[edge_set];
  return graph.schema().edge_sets()[set.reverse_of.value_or(edge_set)].columns;
}

absl::StatusOr<NumberColumn> EdgeNumbers(const SourceGraph& graph, size_t edge_set,
                                         absl::string_view name) {
  return NumbersNamed(EdgeColumns(graph, edge_set), name,
                      [&](size_t c) { return graph.EdgeColumn(edge_set, c); });
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? ~uint64_t{0} : sum;
}

uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? ~uint64_t{0} : product;
}

}  // namespace

SamplerScratch::SamplerScratch() : rooms_(std::make_unique<DrawRooms>()) {}
SamplerScratch::~SamplerScratch() = default;
SamplerScratch::SamplerScratch(SamplerScratch&&) noexcept = default;
SamplerScratch& SamplerScratch::operator=(SamplerScratch&&) noexcept = default;
uint64_t SamplerScratch::num_bytes() const { return rooms_->num_bytes(); }

absl::StatusOr<Sampler> Sampler::Create(std::shared_ptr<const SamplingPlan> plan,
                                        const SourceGraph* graph) {
  const SamplingOptions& options = plan->options();
  auto edges = std::make_shared<PlannedEdges>();
  for (size_t end = 0; end < edges->seed_times.size(); ++end) {
    PH_ASSIGN_OR_RETURN(
        edges->seed_times[end],
        NodeNumbers(*graph, plan->node_sets()[plan->seed_set(end)], options.node_time_column));
  }
  edges->is_input.resize(plan->ops().size());
  for (const PlannedOp& op : plan->ops()) {
    const size_t edge_set = plan->edge_sets()[op.edge_set].edge_set;
    OpEdges from;
    PH_ASSIGN_OR_RETURN(from.by_source, graph->BySource(edge_set));
    from.strategy = op.strategy;
    from.num_targets = graph->num_nodes(graph->schema().edge_sets()[edge_set].target);
    if (op.weight_column) {
      PH_ASSIGN_OR_RETURN(
          from.weights,
          EdgeNumbers(*graph, edge_set, EdgeColumns(*graph, edge_set)[*op.weight_column].name));
    }
    PH_ASSIGN_OR_RETURN(from.node_times,
                        NodeNumbers(*graph, graph->schema().edge_sets()[edge_set].target,
                                    options.node_time_column));
    PH_ASSIGN_OR_RETURN(from.edge_times, EdgeNumbers(*graph, edge_set, options.edge_time_column));
    from.latest = options.latest;
    edges->ops.push_back(from);
    for (const size_t input : op.inputs) {
      if (input != PlannedOp::kSeeds) edges->is_input[input] = true;
    }
  }
  for (const PlannedEdgeSet& set : plan->edge_sets()) {
    PlannedEdges::Induced& induced = edges->induced.emplace_back();
    if (!set.induced) continue;
    auto by_source = graph->BySource(set.edge_set);
    auto by_target = graph->ByTarget(set.edge_set);
    for (const absl::Status& status : {by_source.status(), by_target.status()}) {
      if (absl::IsDataLoss(status)) return status;
    }
    if (!by_source.ok() && !by_target.ok()) return by_source.status();
    if (by_source.ok()) induced.by_source = *by_source;
    if (by_target.ok()) induced.by_target = *by_target;
    PH_ASSIGN_OR_RETURN(induced.node_times,
                        NodeNumbers(*graph, graph->schema().edge_sets()[set.edge_set].target,
                                    options.node_time_column));
    PH_ASSIGN_OR_RETURN(induced.edge_times,
                        EdgeNumbers(*graph, set.edge_set, options.edge_time_column));
  }
  Sampler sampler;
  sampler.plan_ = std::move(plan);
  sampler.graph_ = graph;
  sampler.edges_ = std::move(edges);
  return sampler;
}

absl::Status Sampler::CheckRequest(const DrawRequest& request) const {
  for (size_t i = 0; i < request.seeds.size(); ++i) {
    const uint32_t seed = request.seeds[i];
    const size_t seed_node_set = plan_->node_sets()[plan_->seed_set(i % plan_->seeds_per_row())];
    const uint64_t num_nodes = graph_->num_nodes(seed_node_set);
    if (seed < num_nodes) continue;
    return absl::OutOfRangeError(absl::StrCat(
        "seed ", seed, ": the node set ", Quoted(graph_->schema().node_sets()[seed_node_set].name),
        " has ", num_nodes, " nodes"));
  }
  if (request.seeds.size() % plan_->seeds_per_row() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "link seeds are pairs of source and target, not ", request.seeds.size(), " nodes"));
  }
  if (!request.occurrences.empty() &&
      request.occurrences.size() != request.seeds.size() / plan_->seeds_per_row()) {
    return absl::InvalidArgumentError(absl::StrCat("occurrences of ", request.occurrences.size(),
                                                   " seeds, but there are ",
                                                   request.seeds.size() / plan_->seeds_per_row()));
  }
  if (request.level >= plan_->num_levels()) {
    return absl::InvalidArgumentError(
        absl::StrCat("level ", request.level, ": there are ", plan_->num_levels()));
  }
  if (request.max_rows > DrawRequest::kMostRows) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_rows ", request.max_rows, ", at most ", DrawRequest::kMostRows));
  }
  const SampledCounts& limits = request.limits;
  const bool none = limits.nodes.empty() && limits.edges.empty();
  if (!none && (limits.nodes.size() != plan_->node_sets().size() ||
                limits.edges.size() != plan_->edge_sets().size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("limits of ", limits.nodes.size(), " node sets and ", limits.edges.size(),
                     " edge sets, but sub-graphs have ", plan_->node_sets().size(), " and ",
                     plan_->edge_sets().size()));
  }
  if (plan_->is_temporal() && !request.time && !edges_->seed_times[0].exists() &&
      !edges_->seed_times[1].exists()) {
    return absl::InvalidArgumentError(
        "a sub-graph needs a time: the seeds' set has no column of times");
  }
  return absl::OkStatus();
}

absl::Status Sampler::SeedsDoNotFit(const DrawRequest& request, const SampledGraph& last) const {
  const SourceGraphSchema& schema = graph_->schema();
  for (size_t n = 0; n < request.limits.nodes.size(); ++n) {
    const uint64_t count = last.node_sets[n].numbers.size();
    if (count <= request.limits.nodes[n]) continue;
    return absl::OutOfRangeError(
        absl::StrCat("the seeds alone do not fit: node set ",
                     Quoted(schema.node_sets()[plan_->node_sets()[n]].name), " has ", count,
                     " of them, the limit is ", request.limits.nodes[n]));
  }
  // Nobody looks for more edges between them than one beyond the limit.
  for (size_t e = 0; e < request.limits.edges.size(); ++e) {
    if (last.edge_sets[e].sources.size() <= request.limits.edges[e]) continue;
    return absl::OutOfRangeError(
        absl::StrCat("the seeds alone do not fit: edge set ",
                     Quoted(schema.edge_sets()[plan_->edge_sets()[e].edge_set].name),
                     " has more than ", request.limits.edges[e], " edges between them"));
  }
  return absl::OutOfRangeError(
      absl::StrCat("the seeds alone do not fit: with the edges between them there are more than ",
                   request.max_rows, " nodes and edges"));
}

absl::Status Sampler::Draw(const DrawRequest& request, SamplerScratch& scratch,
                           SampledGraph& result) const {
  PH_RETURN_IF_ERROR(CheckRequest(request));
  TimeRange times;
  if (request.time) times.end = *request.time;
  if (plan_->is_temporal() && !request.time) {
    // The earliest of those that have one.
    for (size_t i = 0; i < request.seeds.size(); ++i) {
      const NumberColumn& of_end = edges_->seed_times[i % plan_->seeds_per_row()];
      if (of_end.exists()) times.end = std::min(times.end, of_end.Integer(request.seeds[i]));
    }
  }
  if (const uint64_t window = plan_->options().time_window; window != 0) {
    const uint64_t since_first =
        static_cast<uint64_t>(times.end) - static_cast<uint64_t>(times.begin);
    if (window < since_first) {
      times.begin = static_cast<int64_t>(static_cast<uint64_t>(times.end) - window);
    }
  }
  const bool has_limits = !request.limits.nodes.empty();
  const uint64_t key =
      DrawKey(request.seed_number, request.epoch, request.seeds, request.occurrences);
  const uint32_t num_levels = plan_->num_levels();
  for (uint32_t level = request.level; level < num_levels; ++level) {
    Drawing drawing(*plan_, *edges_, {has_limits ? &request.limits : nullptr, request.max_rows},
                    *scratch.rooms_, result);
    if (drawing.Draw(request.seeds, key, level, times, request.edge_numbers)) {
      return absl::OkStatus();
    }
    if (drawing.is_damaged()) return graph_->Damaged("an edge leads to no node");
    if (!has_limits) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the sub-graph of seed ", request.seeds.empty() ? 0 : request.seeds.front(),
                       " has more than ", request.max_rows, " nodes and edges"));
    }
  }
  return SeedsDoNotFit(request, result);
}

SampledCounts Sampler::UpperBound(uint64_t num_seeds) const {
  const auto num_nodes = [&](size_t position) {
    return graph_->num_nodes(plan_->node_sets()[position]);
  };
  const auto num_edges = [&](size_t position) {
    return graph_->num_edges(plan_->edge_sets()[position].edge_set);
  };
  SampledCounts bound;
  bound.nodes.resize(plan_->node_sets().size());
  bound.edges.resize(plan_->edge_sets().size());
  for (const size_t end : {size_t{0}, size_t{1}}) {
    bound.nodes[plan_->seed_set(end)] = std::min(num_seeds, num_nodes(plan_->seed_set(end)));
  }
  std::vector<uint64_t> given;
  for (const PlannedOp& op : plan_->ops()) {
    const PlannedEdgeSet& set = plan_->edge_sets()[op.edge_set];
    uint64_t inputs = 0;
    for (const size_t input : op.inputs) {
      inputs = SaturatingAdd(inputs, input == PlannedOp::kSeeds ? num_seeds : given[input]);
    }
    inputs = std::min(inputs, num_nodes(set.source));
    const uint64_t edges =
        std::min(SaturatingMultiply(inputs, op.sample_size), num_edges(op.edge_set));
    given.push_back(std::min(edges, num_nodes(set.target)));
    bound.edges[op.edge_set] =
        std::min(SaturatingAdd(bound.edges[op.edge_set], edges), num_edges(op.edge_set));
    bound.nodes[set.target] =
        std::min(SaturatingAdd(bound.nodes[set.target], given.back()), num_nodes(set.target));
  }
  for (size_t e = 0; e < bound.edges.size(); ++e) {
    if (plan_->edge_sets()[e].induced) bound.edges[e] = num_edges(e);
  }
  return bound;
}

uint64_t Sampler::DrawBytes(const SampledCounts& counts) const {
  // Vectors grow to twice what is asked for, and have both the old and the new values meanwhile.
  constexpr uint64_t kGrowth = 3;
  // Edges are looked at in blocks, so that counts are exceeded by one block before this is seen.
  constexpr uint64_t kBlock = 4096;
  uint64_t bytes = 0;
  const auto add = [&](uint64_t count, uint64_t each) {
    bytes = SaturatingAdd(
        bytes, SaturatingMultiply(SaturatingAdd(count, kBlock), SaturatingMultiply(each, kGrowth)));
  };
  // A number, a place in the table, at most four slots, the state.
  for (const uint64_t nodes : counts.nodes) {
    add(nodes, 2 * sizeof(uint32_t) + 4 * 2 * sizeof(uint32_t) + sizeof(DrawRooms::NodeState));
  }
  // Both ends of each link, once for each edge set that it is left out of.
  if (!plan_->excluded().empty()) {
    add(counts.nodes[plan_->seed_set(0)] + counts.nodes[plan_->seed_set(1)],
        plan_->excluded().size() * sizeof(EdgeEnds));
  }
  uint64_t widest = 0;
  for (size_t e = 0; e < counts.edges.size(); ++e) {
    const PlannedEdgeSet& set = plan_->edge_sets()[e];
    // Both ends, the number, and for each op what it gives; runs if there are several ops.
    uint64_t each = 2 * sizeof(uint32_t) + sizeof(uint64_t) + set.num_ops * sizeof(uint32_t);
    if (set.num_ops > 1) each += sizeof(DrawRooms::Run) + sizeof(uint32_t);
    if (set.num_ops > 1 && !plan_->options().merge_parallel) {
      each += sizeof(uint64_t) + sizeof(uint32_t);
    }
    if (set.induced) each += sizeof(DrawRooms::InducedEdge);
    add(counts.edges[e], each);
    if (set.num_ops > 1) add(counts.nodes[set.source], sizeof(uint32_t));
    widest = std::max(widest, counts.edges[e]);
  }
  uint64_t frontier = 0;
  for (const uint64_t nodes : counts.nodes) frontier = std::max(frontier, nodes);
  add(frontier, sizeof(uint32_t));
  // Of one block: places, targets, ends of rows, what chooses among a row.
  add(widest, 2 * sizeof(uint64_t) + 2 * sizeof(uint32_t) + 6 * sizeof(uint64_t));
  return bytes;
}

}  // namespace packhouse
