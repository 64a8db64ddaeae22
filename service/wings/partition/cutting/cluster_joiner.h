// Several parts of a fine partition as one graph: Cluster-GCN's batches (Chiang et al. 2019).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_CLUSTER_JOINER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_CLUSTER_JOINER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/new_ids.h"

namespace packhouse {

// The nodes of some parts, and every edge both of whose ends are among them: also those that the
// partition has cut. Nodes and edges are in the order of new ids.
struct InducedParts {
  // Of local nodes: new and original homogeneous ids.
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> original_nodes;
  // Of local edges: original homogeneous ids, and local ids of their ends.
  std::vector<uint64_t> original_edges;
  std::vector<uint32_t> sources;
  std::vector<uint32_t> targets;
  // Edges between different parts of these.
  uint64_t restored_edges = 0;
};

// Thread-compatible: one for each thread. `ids` must outlive it. Takes 4 bytes a node of the whole
// graph.
class ClusterJoiner {
 public:
  explicit ClusterJoiner(const NewIds* ids);

  // INVALID_ARGUMENT naming the part if there is none of the number, or if it is named twice. The
  // order of `parts` does not matter. O(nodes of the parts and edges that end at them), and O(p log
  // p) for p parts.
  absl::StatusOr<InducedParts> Join(absl::Span<const uint32_t> parts);

  // The number of nodes and of edges inside each part, without those between parts, by type: what a
  // packer adds up to fill limits. The edges that joining restores come on top of it. O(edges).
  struct Sizes {
    std::vector<std::vector<uint64_t>> nodes;  // By part, then type.
    std::vector<std::vector<uint64_t>> edges;
  };
  Sizes SizesOfParts() const;

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;

  const NewIds* const ids_;
  // By new id: the local id, or kAbsent. All are kAbsent between calls.
  std::vector<uint32_t> local_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_CLUSTER_JOINER_H_
