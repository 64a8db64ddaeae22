#include "service/wings/partition/cutting/new_ids.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace packhouse {
namespace {

// The ranges that tile all ids, part after part and type after type, of these sizes.
std::vector<std::vector<IdRange>> Tiles(const std::vector<std::vector<uint64_t>>& sizes,
                                        uint32_t num_parts) {
  std::vector<std::vector<IdRange>> map(sizes.size(), std::vector<IdRange>(num_parts));
  uint64_t at = 0;
  for (uint32_t p = 0; p < num_parts; ++p) {
    for (size_t t = 0; t < sizes.size(); ++t) {
      map[t][p] = {at, at + sizes[t][p]};
      at += sizes[t][p];
    }
  }
  return map;
}

IdRange OfPart(const std::vector<std::vector<IdRange>>& map, uint32_t part) {
  return map.empty() ? IdRange{} : IdRange{map.front()[part].begin, map.back()[part].end};
}

// The part whose ranges end after `id`.
uint32_t OwnerIn(const std::vector<IdRange>& last_type, uint64_t id) {
  const auto found = std::upper_bound(last_type.begin(), last_type.end(), id,
                                      [](uint64_t at, const IdRange& r) { return at < r.end; });
  return static_cast<uint32_t>(found - last_type.begin());
}

}  // namespace

absl::StatusOr<NewIds> NewIds::Create(const HomogeneousGraph* graph,
                                      absl::Span<const uint32_t> part, uint32_t num_parts,
                                      const PartitionWatch& watch) {
  if (part.size() != graph->num_nodes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parts of ", part.size(), " nodes for a graph of ", graph->num_nodes(), " nodes"));
  }
  NewIds ids;
  ids.graph_ = graph;
  ids.num_parts_ = num_parts;
  std::vector<std::vector<uint64_t>> sizes(graph->node_types().size(),
                                           std::vector<uint64_t>(num_parts));
  for (size_t t = 0; t < graph->node_types().size(); ++t) {
    const HomogeneousNodeType& type = graph->node_types()[t];
    for (uint32_t node = type.start; node < type.end(); ++node) {
      if (part[node] >= num_parts) {
        return absl::InvalidArgumentError(absl::StrCat("node ", node - type.start, " of \"",
                                                       type.name, "\" has part ", part[node],
                                                       ", beyond ", num_parts, " parts"));
      }
      ++sizes[t][part[node]];
    }
  }
  ids.node_map_ = Tiles(sizes, num_parts);
  ids.original_of_node_.resize(graph->num_nodes());
  ids.new_of_node_.resize(graph->num_nodes());
  for (size_t t = 0; t < graph->node_types().size(); ++t) {
    const HomogeneousNodeType& type = graph->node_types()[t];
    std::vector<uint64_t> next(num_parts);
    for (uint32_t p = 0; p < num_parts; ++p) next[p] = ids.node_map_[t][p].begin;
    for (uint32_t node = type.start; node < type.end(); ++node) {
      const auto id = static_cast<uint32_t>(next[part[node]]++);
      ids.original_of_node_[id] = node;
      ids.new_of_node_[node] = id;
    }
  }

  const size_t num_edge_types = graph->edge_types().size();
  sizes.assign(num_edge_types, std::vector<uint64_t>(num_parts));
  for (size_t e = 0; e < num_edge_types; ++e) {
    if (watch.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
    watch.Tell(PartitionPhase::kNumbering, 0.5 * static_cast<double>(e) / num_edge_types);
    const HomogeneousEdgeType& type = graph->edge_types()[e];
    const HomogeneousNodeType& target = graph->node_types()[type.target];
    for (uint32_t row = 0; row < target.size; ++row) {
      sizes[e][part[target.start + row]] += type.by_target.degree(row);
    }
  }
  ids.edge_map_ = Tiles(sizes, num_parts);
  if (num_parts == 1) {
    watch.Tell(PartitionPhase::kNumbering, 1);
    return ids;
  }
  ids.first_edge_.resize(num_edge_types);
  for (size_t e = 0; e < num_edge_types; ++e) {
    if (watch.IsCancelled()) return absl::CancelledError("partitioning was cancelled");
    watch.Tell(PartitionPhase::kNumbering, 0.5 + 0.5 * static_cast<double>(e) / num_edge_types);
    const HomogeneousEdgeType& type = graph->edge_types()[e];
    const HomogeneousNodeType& target = graph->node_types()[type.target];
    std::vector<uint64_t> next(num_parts);
    for (uint32_t p = 0; p < num_parts; ++p) next[p] = ids.edge_map_[e][p].begin;
    // Within a part, new ids of one type ascend with the original ones.
    ids.first_edge_[e].resize(target.size);
    for (uint32_t row = 0; row < target.size; ++row) {
      uint64_t& at = next[part[target.start + row]];
      ids.first_edge_[e][row] = at;
      at += type.by_target.degree(row);
    }
  }
  watch.Tell(PartitionPhase::kNumbering, 1);
  return ids;
}

IdRange NewIds::NodesOfPart(uint32_t part) const { return OfPart(node_map_, part); }
IdRange NewIds::EdgesOfPart(uint32_t part) const { return OfPart(edge_map_, part); }

uint32_t NewIds::OwnerOfNode(uint32_t new_node) const {
  return OwnerIn(node_map_.back(), new_node);
}
uint32_t NewIds::OwnerOfEdge(uint64_t new_edge) const {
  return OwnerIn(edge_map_.back(), new_edge);
}

uint64_t NewIds::NewEdge(size_t edge_type, uint32_t original_target, uint64_t rank) const {
  const HomogeneousEdgeType& type = graph_->edge_types()[edge_type];
  const uint32_t row = original_target - graph_->node_types()[type.target].start;
  if (first_edge_.empty()) {
    return type.start + type.by_target.edge(type.by_target.offsets[row] + rank);
  }
  return first_edge_[edge_type][row] + rank;
}

std::vector<uint32_t> NewIds::OriginalWithinType(size_t node_type) const {
  const HomogeneousNodeType& type = graph_->node_types()[node_type];
  std::vector<uint32_t> originals;
  originals.reserve(type.size);
  for (const IdRange& range : node_map_[node_type]) {
    for (uint64_t id = range.begin; id < range.end; ++id) {
      originals.push_back(original_of_node_[id] - type.start);
    }
  }
  return originals;
}

}  // namespace packhouse
