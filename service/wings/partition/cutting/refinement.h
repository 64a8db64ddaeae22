// Moves of single nodes between parts: to repair balance, and to lower the cut.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_REFINEMENT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_REFINEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

// A symmetric graph without self loops, with the weights that are to be balanced. A view.
struct WeightedGraph {
  absl::Span<const uint64_t> offsets;  // Nodes + 1.
  absl::Span<const uint32_t> neighbours;
  absl::Span<const uint32_t> edge_weights;  // Empty if all are 1.
  absl::Span<const uint32_t> node_weights;  // num_constraints a node, node after node.
  size_t num_constraints = 1;
  absl::Span<const uint32_t> node_sizes = {};  // Of copies; empty if all are 1.

  uint32_t num_nodes() const { return static_cast<uint32_t>(offsets.size() - 1); }
  uint32_t edge_weight(uint64_t entry) const {
    return edge_weights.empty() ? 1 : edge_weights[entry];
  }
  uint32_t node_weight(uint32_t node, size_t constraint) const {
    return node_weights[node * num_constraints + constraint];
  }
};

// The most that each part may weigh.
struct PartLimits {
  uint32_t num_parts = 1;
  std::vector<uint64_t> limit;  // By constraint.
};

// What each part weighs, and how many nodes it has. Thread-compatible.
class PartLoads {
 public:
  // O(nodes * constraints).
  PartLoads(const WeightedGraph* graph, const PartLimits* limits, absl::Span<const uint32_t> part);

  uint64_t load(uint32_t part, size_t constraint) const {
    return load_[part * graph_->num_constraints + constraint];
  }
  uint64_t nodes(uint32_t part) const { return nodes_[part]; }
  // Whether the part keeps its limits with one node more.
  bool Takes(uint32_t part, uint32_t node) const {
    for (size_t c = 0; c < graph_->num_constraints; ++c) {
      const uint32_t weight = graph_->node_weight(node, c);
      if (weight > 0 && load(part, c) + weight > limits_->limit[c]) return false;
    }
    return true;
  }
  void Move(uint32_t node, uint32_t from, uint32_t to) {
    for (size_t c = 0; c < graph_->num_constraints; ++c) {
      const uint32_t weight = graph_->node_weight(node, c);
      load_[from * graph_->num_constraints + c] -= weight;
      load_[to * graph_->num_constraints + c] += weight;
    }
    --nodes_[from];
    ++nodes_[to];
  }
  // The largest load over its limit, of all parts and of one constraint or all; 1 is exactly kept.
  double Excess(size_t constraint) const;
  double Excess() const;
  uint32_t num_empty() const;

 private:
  const WeightedGraph* graph_;
  const PartLimits* limits_;
  std::vector<uint64_t> load_;
  std::vector<uint64_t> nodes_;
};

// The weight of edges between parts, each counted once.
uint64_t CutOf(const WeightedGraph& graph, absl::Span<const uint32_t> part);
// The sum over nodes of the number of other parts among their neighbours, times their sizes.
uint64_t VolumeOf(const WeightedGraph& graph, absl::Span<const uint32_t> part, uint32_t num_parts);

// Moves nodes out of parts that are over a limit, those first whose move costs least for their
// weight, and a node into each empty part if there are as many nodes as parts. Deterministic.
// Whether all limits are kept afterwards and no part is empty that need not be: it is a heuristic,
// and may fail where a solution exists. O(rounds * (edges of the parts concerned)).
bool RepairBalance(const WeightedGraph& graph, const PartLimits& limits, absl::Span<uint32_t> part);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_REFINEMENT_H_
