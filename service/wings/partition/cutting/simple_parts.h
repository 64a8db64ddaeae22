// Parts that need no engine: drawn at random, and streamed.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_SIMPLE_PARTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_SIMPLE_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/balance.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// A uniform part for each node. 4 bytes a node.
std::vector<uint32_t> RandomParts(uint32_t num_nodes, uint32_t num_parts, uint64_t seed);

// Several passes over the nodes, from one on that is drawn from the seed. Each node goes to the
// part with most of its neighbours, weighed by the room that is left there (linear deterministic
// greedy, Stanton and Kliot 2012; later passes see the parts of the ones before, Nishimura and
// Ugander 2013). The last passes move a node wherever it has more neighbours. This is done three
// times, and the lowest cut is kept:
// - in the order of nodes, which often has clusters together, with room weighed linearly;
// - likewise, but at first from the nodes with the most edges to those with the fewest: best on
//   graphs with clusters in many parts;
// - always from the most edges to the fewest, with room weighed by its root. Best on graphs of
// hubs:
//   these share few parts, which then have far more edges than others unless in-degrees are
//   balanced too.
//
// `edge_weights`: as GraphWeights.edges; then neighbours count by them.
//
// Constraints with a reason in `dropped` are not kept, nor those that run out of room: a part may
// then exceed its limit. No part stays empty if there are as many nodes as parts. O(passes * (edges
// + nodes * parts without neighbours)); 12 bytes a node and 16 a part for each constraint. The same
// seed gives the same parts. CANCELLED by `watch`.
absl::StatusOr<std::vector<uint32_t>> StreamParts(
    const HomogeneousGraph& graph, const BalanceTerms& terms,
    absl::Span<const std::vector<uint64_t>> edge_weights, absl::Span<const std::string> dropped,
    double imbalance, uint32_t num_parts, uint64_t seed, const PartitionWatch& watch);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_SIMPLE_PARTS_H_
