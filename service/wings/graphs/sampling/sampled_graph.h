// A sub-graph that was drawn from a source graph: which nodes and edges of it, and how they hang
// together. No features.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_GRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace packhouse {

struct SampledNodes {
  // The number in the source graph of each node, each once. In the seeds' set the seeds come first,
  // in the order in which they were given; the others as they were reached.
  std::vector<uint32_t> numbers;
  // Of a part: the first ones, which the part owns. The others are copies of other parts' nodes.
  uint32_t num_inner = UINT32_MAX;
};

// No edge is here twice. With SamplingOptions::merge_parallel no two have the same ends: of
// parallel edges that were drawn, the first in table order is here.
struct SampledEdges {
  // Positions in the `numbers` of the two node sets.
  std::vector<uint32_t> sources;
  std::vector<uint32_t> targets;
  // The number in the source graph of each edge. Empty if a draw was asked for structure only.
  std::vector<uint64_t> numbers;
};

// The order of everything is a function of what decides the draw (DrawRequest).
struct SampledGraph {
  // As SamplingPlan::node_sets() and edge_sets().
  std::vector<SampledNodes> node_sets;
  std::vector<SampledEdges> edge_sets;
  // Of each seed that was given, its position among the nodes of the seeds' set. A seed given twice
  // has the same position twice.
  std::vector<uint32_t> seeds;
  // 0: as the spec says. Above: it was drawn smaller, with the fan-outs of this level.
  uint32_t level = 0;

  uint64_t num_nodes() const {
    uint64_t sum = 0;
    for (const SampledNodes& set : node_sets) sum += set.numbers.size();
    return sum;
  }
  uint64_t num_edges() const {
    uint64_t sum = 0;
    for (const SampledEdges& set : edge_sets) sum += set.sources.size();
    return sum;
  }
};

// Counts of nodes and edges by set, as SamplingPlan::node_sets() and edge_sets().
struct SampledCounts {
  std::vector<uint64_t> nodes;
  std::vector<uint64_t> edges;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLED_GRAPH_H_
