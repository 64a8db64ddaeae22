#include "service/wings/partition/cutting/part_cutter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace packhouse {
namespace {

absl::Status CutCancelled() { return absl::CancelledError("partitioning was cancelled"); }

}  // namespace

PartCutter::PartCutter(const NewIds* ids, uint32_t num_hops, HaloKind halo)
    : ids_(ids), num_hops_(num_hops), halo_(halo), local_(ids->graph().num_nodes(), kAbsent) {}

bool PartCutter::Join(uint32_t node, std::vector<uint32_t>& joined) {
  if (local_[node] != kAbsent) return false;
  local_[node] = 0;  // Its place is known when the halo is sorted.
  joined.push_back(node);
  return true;
}

// One part: all edges, in their own order.
void PartCutter::TakeEdgesInOrder(Part& part) {
  const HomogeneousGraph& graph = ids_->graph();
  for (const HomogeneousEdgeType& type : graph.edge_types()) {
    const uint32_t source_start = graph.node_types()[type.source].start;
    const HomogeneousNodeType& target = graph.node_types()[type.target];
    for (uint32_t row = 0; row < target.size; ++row) {
      for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1]; ++at) {
        const uint64_t edge = type.start + type.by_target.edge(at);
        part.edges[edge] = part.original_edges[edge] = edge;
        part.sources[edge] = source_start + type.by_target.neighbours[at];
        part.targets[edge] = target.start + row;
      }
    }
  }
}

// The in-edges of inner nodes, in the order of new ids. Sources are new ids here.
void PartCutter::TakeInnerEdges(const IdRange& inner, Part& part) {
  const HomogeneousGraph& graph = ids_->graph();
  uint64_t at = 0;
  for (size_t e = 0; e < graph.edge_types().size(); ++e) {
    const HomogeneousEdgeType& type = graph.edge_types()[e];
    const uint32_t source_start = graph.node_types()[type.source].start;
    const uint32_t target_start = graph.node_types()[type.target].start;
    const IdRange targets = ids_->node_map()[type.target][part.number];
    uint64_t id = ids_->edge_map()[e][part.number].begin;
    for (uint64_t target = targets.begin; target < targets.end; ++target) {
      const uint32_t row = ids_->original_of_node()[target] - target_start;
      const uint64_t end = type.by_target.offsets[row + 1];
      for (uint64_t place = type.by_target.offsets[row]; place < end; ++place, ++at) {
        part.edges[at] = id++;
        part.original_edges[at] = type.start + type.by_target.edge(place);
        part.sources[at] = ids_->new_of_node()[source_start + type.by_target.neighbours[place]];
        part.targets[at] = static_cast<uint32_t>(target - inner.begin);
      }
    }
  }
}

void PartCutter::TakeInEdges(uint32_t node, std::vector<HaloEdge>& edges) {
  const HomogeneousGraph& graph = ids_->graph();
  const uint32_t original = ids_->original_of_node()[node];
  const size_t node_type = graph.NodeTypeOf(original);
  const uint32_t row = original - graph.node_types()[node_type].start;
  for (const size_t e : graph.EdgeTypesInto(node_type)) {
    const HomogeneousEdgeType& type = graph.edge_types()[e];
    const uint32_t source_start = graph.node_types()[type.source].start;
    const uint64_t begin = type.by_target.offsets[row];
    for (uint64_t place = begin; place < type.by_target.offsets[row + 1]; ++place) {
      edges.push_back({ids_->NewEdge(e, original, place - begin),
                       type.start + type.by_target.edge(place),
                       ids_->new_of_node()[source_start + type.by_target.neighbours[place]], node});
    }
  }
}

// The out-edges of inner nodes to nodes elsewhere of which not all in-edges are here already.
void PartCutter::TakeOutEdges(const IdRange& inner, Part& part, std::vector<HaloEdge>& edges) {
  const HomogeneousGraph& graph = ids_->graph();
  for (size_t e = 0; e < graph.edge_types().size(); ++e) {
    const HomogeneousEdgeType& type = graph.edge_types()[e];
    const uint32_t source_start = graph.node_types()[type.source].start;
    const uint32_t target_start = graph.node_types()[type.target].start;
    const IdRange sources = ids_->node_map()[type.source][part.number];
    for (uint64_t source = sources.begin; source < sources.end; ++source) {
      const uint32_t row = ids_->original_of_node()[source] - source_start;
      for (uint64_t place = type.by_source.offsets[row]; place < type.by_source.offsets[row + 1];
           ++place) {
        const uint32_t target_row = type.by_source.neighbours[place];
        const uint32_t target = ids_->new_of_node()[target_start + target_row];
        if (target - inner.begin < inner.size() || local_[target] == kExpanded) continue;
        // Edges of a row ascend, so that the rank of this one is found by bisection.
        const uint64_t edge = type.by_source.edge(place);
        const uint64_t begin = type.by_target.offsets[target_row];
        uint64_t rank = 0;
        if (type.by_target.edges.empty()) {
          rank = edge - begin;
        } else {
          const auto row_begin = type.by_target.edges.begin() + static_cast<ptrdiff_t>(begin);
          const auto row_end = type.by_target.edges.begin() +
                               static_cast<ptrdiff_t>(type.by_target.offsets[target_row + 1]);
          rank = static_cast<uint64_t>(std::lower_bound(row_begin, row_end, edge) - row_begin);
        }
        edges.push_back({ids_->NewEdge(e, target_start + target_row, rank), type.start + edge,
                         static_cast<uint32_t>(source), target});
        Join(target, part.nodes);
      }
    }
  }
}

std::vector<PartCutter::HaloEdge> PartCutter::CollectHalo(const IdRange& inner, Part& part) {
  std::vector<HaloEdge> edges;
  std::vector<uint32_t> level;
  for (uint64_t at = 0; at < part.num_inner_edges; ++at) Join(part.sources[at], level);
  part.nodes.insert(part.nodes.end(), level.begin(), level.end());
  for (uint32_t hop = 1; hop < num_hops_; ++hop) {
    const size_t first = edges.size();
    for (const uint32_t node : level) {
      TakeInEdges(node, edges);
      local_[node] = kExpanded;
    }
    level.clear();
    for (size_t at = first; at < edges.size(); ++at) Join(edges[at].source, level);
    part.nodes.insert(part.nodes.end(), level.begin(), level.end());
  }
  if (halo_ == HaloKind::kPartitionGraph) TakeOutEdges(inner, part, edges);
  return edges;
}

absl::StatusOr<Part> PartCutter::Cut(uint32_t number, const PartitionWatch& watch) {
  Part part;
  part.number = number;
  const IdRange inner = ids_->NodesOfPart(number);
  const IdRange inner_edges = ids_->EdgesOfPart(number);
  part.num_inner_nodes = inner.size();
  part.num_inner_edges = inner_edges.size();
  part.edges.resize(inner_edges.size());
  part.original_edges.resize(inner_edges.size());
  part.sources.resize(inner_edges.size());
  part.targets.resize(inner_edges.size());
  for (uint64_t node = inner.begin; node < inner.end; ++node) {
    part.nodes.push_back(static_cast<uint32_t>(node));
  }
  if (ids_->num_parts() == 1) {
    TakeEdgesInOrder(part);
    part.original_nodes = part.nodes;
    return part;
  }
  if (watch.IsCancelled()) return CutCancelled();
  for (uint64_t node = inner.begin; node < inner.end; ++node) {
    local_[node] = static_cast<uint32_t>(node - inner.begin);
  }
  TakeInnerEdges(inner, part);
  std::vector<HaloEdge> halo = CollectHalo(inner, part);
  // The halo in the order of new ids; then its local ids are known.
  const auto first_halo = part.nodes.begin() + static_cast<ptrdiff_t>(inner.size());
  std::sort(first_halo, part.nodes.end());
  for (size_t local = inner.size(); local < part.nodes.size(); ++local) {
    local_[part.nodes[local]] = static_cast<uint32_t>(local);
  }
  std::sort(halo.begin(), halo.end(),
            [](const HaloEdge& a, const HaloEdge& b) { return a.id < b.id; });
  for (uint32_t& source : part.sources) source = local_[source];
  for (const HaloEdge& edge : halo) {
    part.edges.push_back(edge.id);
    part.original_edges.push_back(edge.original);
    part.sources.push_back(local_[edge.source]);
    part.targets.push_back(local_[edge.target]);
  }
  part.original_nodes.reserve(part.nodes.size());
  for (const uint32_t node : part.nodes) {
    part.original_nodes.push_back(ids_->original_of_node()[node]);
    local_[node] = kAbsent;
  }
  if (watch.IsCancelled()) return CutCancelled();
  return part;
}

}  // namespace packhouse
