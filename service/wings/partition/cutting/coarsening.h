// A graph made smaller: nodes that belong together become one.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_COARSENING_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_COARSENING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/refinement.h"

namespace packhouse {

// A graph with its own arrays.
struct CoarseGraph {
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> neighbours;
  std::vector<uint32_t> edge_weights;
  std::vector<uint32_t> node_weights;
  size_t num_constraints = 1;
  // The coarse node of each node of the finer graph.
  std::vector<uint32_t> coarse_of;

  uint32_t num_nodes() const { return static_cast<uint32_t>(offsets.size() - 1); }
  WeightedGraph view() const {
    return {offsets, neighbours, edge_weights, node_weights, num_constraints};
  }
};

// Joins nodes of the same block that are strongly connected: each goes, in a random order, to the
// cluster of its neighbours with the largest share of its edges going to the node (label
// propagation, Raghavan, Albert and Kumara 2007; bounded, Meyerhenke, Sanders and Schulz 2014).
// Nodes that find no room join others that hang on the same cluster. A cluster weighs at most
// `most` in each constraint, unless one node does. Edge weights between clusters are sums, so that
// cuts along blocks keep their weight.
//
// O(edges); 32 bytes a node, and an entry of 8 bytes for each entry that stays.
CoarseGraph Coarsen(const WeightedGraph& graph, absl::Span<const uint64_t> block,
                    absl::Span<const uint64_t> most, SeededRandom& random);

// A random order of 0 to count - 1.
std::vector<uint32_t> RandomOrder(uint32_t count, SeededRandom& random);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_COARSENING_H_
