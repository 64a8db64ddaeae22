#include "service/wings/partition_mpi/shares/shared_ids.h"

#include <algorithm>

namespace packhouse {
namespace {

// Sizes by type and part, in one array.
class SizeTable {
 public:
  SizeTable(size_t types, uint32_t parts) : parts_(parts), sizes_(types * parts) {}
  uint64_t& At(size_t type, uint32_t part) { return sizes_[type * parts_ + part]; }
  absl::Span<uint64_t> all() { return absl::MakeSpan(sizes_); }

 private:
  size_t parts_;
  std::vector<uint64_t> sizes_;
};

// The ranges that tile all ids, part after part and type after type; `sizes` becomes where this
// rank's first id of each type and part is.
std::vector<std::vector<IdRange>> TileOverRanks(Ranks& ranks, size_t types, uint32_t parts,
                                                SizeTable& sizes) {
  SizeTable before = sizes;
  ranks.SumBefore(before.all());
  ranks.Sum(sizes.all());
  std::vector<std::vector<IdRange>> map(types, std::vector<IdRange>(parts));
  uint64_t at = 0;
  for (uint32_t p = 0; p < parts; ++p) {
    for (size_t t = 0; t < types; ++t) {
      map[t][p] = {at, at + sizes.At(t, p)};
      at += sizes.At(t, p);
      sizes.At(t, p) = map[t][p].begin + before.At(t, p);
    }
  }
  return map;
}

IdRange RangeOfPart(const std::vector<std::vector<IdRange>>& map, uint32_t part) {
  return map.empty() ? IdRange{} : IdRange{map.front()[part].begin, map.back()[part].end};
}

uint32_t PartOfId(const std::vector<IdRange>& last_type, uint64_t id) {
  const auto found = std::upper_bound(last_type.begin(), last_type.end(), id,
                                      [](uint64_t at, const IdRange& r) { return at < r.end; });
  return static_cast<uint32_t>(found - last_type.begin());
}

GhostNodes GhostSources(Ranks& ranks, GraphShare& graph) {
  return GhostNodes(ranks, graph.blocks(),
                    RemoteOnes(graph.blocks(), ranks.rank(), graph.sources()));
}

}  // namespace

SharedIds::SharedIds(Ranks& ranks, GraphShare* graph, absl::Span<const uint32_t> part,
                     uint32_t num_parts)
    : graph_(graph), num_parts_(num_parts), ghosts_(GhostSources(ranks, *graph)) {
  for (uint64_t& source : graph->mutable_sources()) source = ghosts_.PlaceOf(source);

  const SharedTypes& types = graph->types();
  const uint64_t first = graph->first_node();
  const size_t num_node_types = types.node_types.size();
  SizeTable nodes(num_node_types, num_parts);
  for (uint64_t own = 0; own < graph->num_own(); ++own) {
    ++nodes.At(types.NodeTypeOf(first + own), part[own]);
  }
  node_map_ = TileOverRanks(ranks, num_node_types, num_parts, nodes);
  new_of_place_.resize(ghosts_.num_places());
  for (uint64_t own = 0; own < graph->num_own(); ++own) {
    new_of_place_[own] = nodes.At(types.NodeTypeOf(first + own), part[own])++;
  }
  ghosts_.Refresh(ranks, absl::MakeSpan(new_of_place_));

  const size_t num_edge_types = types.edge_types.size();
  SizeTable edges(num_edge_types, num_parts);
  const auto part_of_row = [&](const GraphShare::TypeRows& rows, uint64_t row) {
    return part[rows.first_node + row - first];
  };
  for (size_t e = 0; e < num_edge_types; ++e) {
    const GraphShare::TypeRows& rows = graph->rows()[e];
    for (uint64_t row = 0; row < rows.num_rows(); ++row) {
      edges.At(e, part_of_row(rows, row)) += rows.offsets[row + 1] - rows.offsets[row];
    }
  }
  edge_map_ = TileOverRanks(ranks, num_edge_types, num_parts, edges);
  first_edge_.resize(num_edge_types);
  for (size_t e = 0; e < num_edge_types; ++e) {
    const GraphShare::TypeRows& rows = graph->rows()[e];
    first_edge_[e].resize(rows.num_rows());
    for (uint64_t row = 0; row < rows.num_rows(); ++row) {
      uint64_t& at = edges.At(e, part_of_row(rows, row));
      first_edge_[e][row] = at;
      at += rows.offsets[row + 1] - rows.offsets[row];
    }
  }
}

IdRange SharedIds::NodesOfPart(uint32_t part) const { return RangeOfPart(node_map_, part); }
IdRange SharedIds::EdgesOfPart(uint32_t part) const { return RangeOfPart(edge_map_, part); }

uint32_t SharedIds::OwnerOfNode(uint64_t new_node) const {
  return PartOfId(node_map_.back(), new_node);
}
uint32_t SharedIds::OwnerOfEdge(uint64_t new_edge) const {
  return PartOfId(edge_map_.back(), new_edge);
}

}  // namespace packhouse
