// Several partitions of one graph into a better one.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_BEST_PARTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_BEST_PARTS_H_

#include <cstdint>
#include <vector>

#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition/cutting/refinement.h"

namespace packhouse {

// Adds one more partition to those that were found: multilevel, from a stream over the coarsest
// graph. Then each round coarsens the graph without joining nodes that the best partition, or it
// and another one, have in different parts; and refines the best partition level by level, so that
// what the others have together can move as one (Sanders and Schulz 2012). On each level, searches
// also go over the limits, and are taken back to them, since single moves find little where parts
// are full (Maas, Gottesbueren and Seemaier 2024). The result has a cut at most that of the best of
// `found` that keeps the limits, and keeps them if one of them does.
//
// `found` is not empty. Ends early if cancelled, with the best so far. Deterministic. Some 30 to 70
// times the time of one call of METIS. Memory: 36 bytes an entry of the adjacency, 80 a node.
std::vector<uint32_t> JoinParts(const WeightedGraph& graph, const PartLimits& limits,
                                std::vector<std::vector<uint32_t>> found, uint64_t seed,
                                const PartitionWatch& watch);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_BEST_PARTS_H_
