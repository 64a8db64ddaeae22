// New ids of nodes and edges, after the graph is reordered by parts.
//
// New node ids ascend by (part, type, original id). New edge ids ascend by (part of the target,
// edge type, new id of the target, original id). With one part, edges keep their ids.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_NEW_IDS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_NEW_IDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// [begin, end) of new homogeneous ids.
struct IdRange {
  uint64_t begin = 0;
  uint64_t end = 0;

  uint64_t size() const { return end - begin; }
  friend bool operator==(const IdRange&, const IdRange&) = default;
};

// Immutable; thread-safe. Original and new ids below are homogeneous unless said otherwise.
class NewIds {
 public:
  // `part` has a number below `num_parts` for each node. O(nodes * (1 + edge types)) time; 8 bytes
  // a node, and 8 for each edge type that ends at it. CANCELLED by `watch`.
  static absl::StatusOr<NewIds> Create(const HomogeneousGraph* graph,
                                       absl::Span<const uint32_t> part, uint32_t num_parts,
                                       const PartitionWatch& watch = {});

  const HomogeneousGraph& graph() const { return *graph_; }
  uint32_t num_parts() const { return num_parts_; }

  // By type and then by part. Part after part, and type after type within a part, they tile all
  // ids. A type that a part has none of has an empty range at its place.
  const std::vector<std::vector<IdRange>>& node_map() const { return node_map_; }
  const std::vector<std::vector<IdRange>>& edge_map() const { return edge_map_; }
  // All types of one part.
  IdRange NodesOfPart(uint32_t part) const;
  IdRange EdgesOfPart(uint32_t part) const;

  // Permutations. Of edges there is none as a whole: each Part has its own.
  absl::Span<const uint32_t> original_of_node() const { return original_of_node_; }
  absl::Span<const uint32_t> new_of_node() const { return new_of_node_; }

  // By binary search among the ends of the parts.
  uint32_t OwnerOfNode(uint32_t new_node) const;
  uint32_t OwnerOfEdge(uint64_t new_edge) const;

  // The new id of the edge at `rank` among the edges of a type that end at an original node, in the
  // order of by_target. O(1).
  uint64_t NewEdge(size_t edge_type, uint32_t original_target, uint64_t rank) const;

  // New to original ids within each type, as DGL's return_mapping: the index is the new id within
  // the type (ids of its ranges, part after part).
  std::vector<uint32_t> OriginalWithinType(size_t node_type) const;

 private:
  NewIds() = default;

  const HomogeneousGraph* graph_ = nullptr;
  uint32_t num_parts_ = 1;
  std::vector<std::vector<IdRange>> node_map_;
  std::vector<std::vector<IdRange>> edge_map_;
  std::vector<uint32_t> original_of_node_;
  std::vector<uint32_t> new_of_node_;
  // By edge type: the new id of the first edge at each node of the target type. Empty if there is
  // one part.
  std::vector<std::vector<uint64_t>> first_edge_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_NEW_IDS_H_
