// New ids of nodes and edges, where no rank has all of them. The laws are those of NewIds.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARED_IDS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARED_IDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "service/wings/partition_mpi/shares/ghost_nodes.h"
#include "service/wings/partition_mpi/shares/graph_share.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// The new ids of a rank's own nodes, of the sources of its edges, and of its edges. Immutable.
class SharedIds {
 public:
  // `part` is of own nodes. The sources of `graph` are replaced by places of ghosts(). 8 bytes for
  // each node, source and (row, edge type).
  SharedIds(Ranks& ranks, GraphShare* graph, absl::Span<const uint32_t> part, uint32_t num_parts);

  const GraphShare& graph() const { return *graph_; }
  const GhostNodes& ghosts() const { return ghosts_; }
  uint32_t num_parts() const { return num_parts_; }

  // As in NewIds: by type and then by part; the same on all ranks.
  const std::vector<std::vector<IdRange>>& node_map() const { return node_map_; }
  const std::vector<std::vector<IdRange>>& edge_map() const { return edge_map_; }
  IdRange NodesOfPart(uint32_t part) const;
  IdRange EdgesOfPart(uint32_t part) const;
  uint32_t OwnerOfNode(uint64_t new_node) const;
  uint32_t OwnerOfEdge(uint64_t new_edge) const;

  // By place of own nodes and ghosts: homogeneous new ids.
  uint64_t new_node(uint64_t place) const { return new_of_place_[place]; }
  // Of the edge at `place` of the graph's arrays, in row `row` of its type.
  uint64_t NewEdge(size_t edge_type, uint64_t row, uint64_t place) const {
    if (num_parts_ == 1) return graph_->edges()[place];
    return first_edge_[edge_type][row] + (place - graph_->rows()[edge_type].offsets[row]);
  }

 private:
  GraphShare* const graph_;
  const uint32_t num_parts_;
  const GhostNodes ghosts_;
  std::vector<std::vector<IdRange>> node_map_;
  std::vector<std::vector<IdRange>> edge_map_;
  std::vector<uint64_t> new_of_place_;
  std::vector<std::vector<uint64_t>> first_edge_;  // By edge type and row.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARED_IDS_H_
