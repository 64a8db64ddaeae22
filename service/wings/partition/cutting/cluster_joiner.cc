#include "service/wings/partition/cutting/cluster_joiner.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace packhouse {

ClusterJoiner::ClusterJoiner(const NewIds* ids)
    : ids_(ids), local_(ids->graph().num_nodes(), kAbsent) {}

absl::StatusOr<InducedParts> ClusterJoiner::Join(absl::Span<const uint32_t> parts) {
  std::vector<uint32_t> sorted(parts.begin(), parts.end());
  std::sort(sorted.begin(), sorted.end());
  if (!sorted.empty() && sorted.back() >= ids_->num_parts()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no part ", sorted.back(), " of ", ids_->num_parts()));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat("part ", *twice, " is to be joined twice"));
  }
  const HomogeneousGraph& graph = ids_->graph();
  InducedParts joined;
  for (const uint32_t p : sorted) {
    const IdRange nodes = ids_->NodesOfPart(p);
    for (uint64_t node = nodes.begin; node < nodes.end; ++node) {
      local_[node] = static_cast<uint32_t>(joined.nodes.size());
      joined.nodes.push_back(static_cast<uint32_t>(node));
      joined.original_nodes.push_back(ids_->original_of_node()[node]);
    }
  }
  for (const uint32_t p : sorted) {
    const IdRange own = ids_->NodesOfPart(p);
    for (size_t e = 0; e < graph.edge_types().size(); ++e) {
      const HomogeneousEdgeType& type = graph.edge_types()[e];
      const uint32_t source_start = graph.node_types()[type.source].start;
      const uint32_t target_start = graph.node_types()[type.target].start;
      const IdRange targets = ids_->node_map()[type.target][p];
      for (uint64_t target = targets.begin; target < targets.end; ++target) {
        const uint32_t row = ids_->original_of_node()[target] - target_start;
        for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1];
             ++at) {
          const uint32_t source = ids_->new_of_node()[source_start + type.by_target.neighbours[at]];
          if (local_[source] == kAbsent) continue;
          joined.original_edges.push_back(type.start + type.by_target.edge(at));
          joined.sources.push_back(local_[source]);
          joined.targets.push_back(local_[target]);
          joined.restored_edges += source < own.begin || source >= own.end ? 1 : 0;
        }
      }
    }
  }
  for (const uint32_t node : joined.nodes) local_[node] = kAbsent;
  return joined;
}

ClusterJoiner::Sizes ClusterJoiner::SizesOfParts() const {
  const HomogeneousGraph& graph = ids_->graph();
  Sizes sizes;
  sizes.nodes.resize(ids_->num_parts());
  sizes.edges.resize(ids_->num_parts());
  for (uint32_t p = 0; p < ids_->num_parts(); ++p) {
    for (const std::vector<IdRange>& type : ids_->node_map()) {
      sizes.nodes[p].push_back(type[p].size());
    }
    const IdRange own = ids_->NodesOfPart(p);
    for (const HomogeneousEdgeType& type : graph.edge_types()) {
      const uint32_t source_start = graph.node_types()[type.source].start;
      const uint32_t target_start = graph.node_types()[type.target].start;
      const IdRange targets = ids_->node_map()[type.target][p];
      uint64_t inside = 0;
      for (uint64_t target = targets.begin; target < targets.end; ++target) {
        const uint32_t row = ids_->original_of_node()[target] - target_start;
        for (uint64_t at = type.by_target.offsets[row]; at < type.by_target.offsets[row + 1];
             ++at) {
          const uint64_t source = ids_->new_of_node()[source_start + type.by_target.neighbours[at]];
          inside += source >= own.begin && source < own.end ? 1 : 0;
        }
      }
      sizes.edges[p].push_back(inside);
    }
  }
  return sizes;
}

}  // namespace packhouse
