// The undirected, weighted form of a graph that METIS and refinement take.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_SYMMETRIC_GRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_SYMMETRIC_GRAPH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// Symmetric, without self loops and duplicates: edges that join the same two nodes, in either
// direction and of any type, are one of a weight that counts them, or is the sum of theirs. Weights
// that are all equal are left out: they would change no cut but its scale. Weights of edges are
// divided by what divides them all, and then rounded up to what METIS can add up: all of them
// together stay below 2^31. Neighbours of a node ascend.
struct SymmetricGraph {
  std::vector<uint64_t> offsets;  // Nodes + 1.
  std::unique_ptr<EngineArray> neighbours;
  std::unique_ptr<EngineArray> weights;  // Null if all are equal.
  // By what the weights of edges were divided and rounded up; 1: they are exact.
  uint64_t rounded_by = 1;

  uint32_t num_nodes() const { return static_cast<uint32_t>(offsets.size() - 1); }
  uint64_t num_entries() const { return offsets.back(); }
  absl::Span<const uint32_t> neighbours_view() const { return {neighbours->data(), num_entries()}; }
  // Empty if all are equal.
  absl::Span<const uint32_t> weights_view() const {
    return weights == nullptr ? absl::Span<const uint32_t>()
                              : absl::Span<const uint32_t>(weights->data(), num_entries());
  }
};

// Arrays in this process's heap, for where there is no engine.
std::unique_ptr<EngineArray> NewHeapArray();

// `engine` gives the arrays; null takes the heap. `edge_weights`: as GraphWeights.edges. O(edges *
// log(largest degree)); 8 bytes a node, 4 an entry, and 4 more if two edges join the same nodes.
// CANCELLED by `watch`; RESOURCE_EXHAUSTED from the engine.
absl::StatusOr<SymmetricGraph> Symmetrize(
    const HomogeneousGraph& graph, AssignmentEngine* engine, const PartitionWatch& watch,
    absl::Span<const std::vector<uint64_t>> edge_weights = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_SYMMETRIC_GRAPH_H_
