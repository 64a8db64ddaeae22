// What a caller asks of a partition, and how it is told how far the work is.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_PARTITION_OPTIONS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_PARTITION_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace packhouse {

enum class PartMethod {
  kAutomatic,  // METIS, or streaming where METIS cannot take the graph or its memory.
  kMetis,
  kRandom,     // Each node a uniform part, drawn from the seed.
  kStreaming,  // Several passes over the nodes; needs a few bytes a node.
};

enum class PartScheme {
  kKWay,       // METIS_PartGraphKway, as DGL.
  kRecursive,  // METIS_PartGraphRecursive: at most a little better or worse, balance closer.
};

enum class PartObjective {
  kCut,     // Few edges between parts.
  kVolume,  // Few copies of nodes. METIS's cut and volume are both tried; the better one stays.
};

enum class PartQuality {
  kDefault,  // One call of METIS.
  kBest,     // Several seeds, joined and refined. Some 30 to 70 times the time of one call.
};

enum class HaloKind {
  // As DGL's partition_graph: in-edges `num_hops` levels back from the inner nodes, and the
  // out-edges of inner nodes to other parts, with their targets.
  kPartitionGraph,
  // As DGL's converter of ParMETIS's output: in-edges of inner nodes only. num_hops must be 1.
  kInEdges,
};

// A class for each node of a set, to have the nodes of each class spread evenly (DGL's
// balance_ntypes).
struct NodeClasses {
  size_t node_set = 0;  // Of the source graph.
  // One a node, each below num_classes; classes without nodes are allowed.
  std::vector<uint16_t> class_of;
  uint32_t num_classes = 1;
  // What reports call the classes; where it ends, or is empty, they have numbers.
  std::vector<std::string> names = {};
};

// One weight of each node of a graph, to have its sums over parts about equal.
struct NodeWeights {
  std::string name;               // In reports.
  std::vector<uint64_t> of_node;  // By homogeneous id.
};

// Weights that a graph brings along, as METIS's files have them.
struct GraphWeights {
  static constexpr size_t kMaxConstraints = 1024;

  // Each is balanced, in place of the number of nodes. Empty: each node weighs 1.
  std::vector<NodeWeights> nodes;
  // By edge type, one for each edge in the order of its set, which has each edge in both
  // directions: what it costs to cut the edge. Empty: 1 each.
  std::vector<std::vector<uint64_t>> edges;
  // By homogeneous id: what a copy of the node costs (METIS's sizes), where the objective is the
  // volume. Empty: 1 each.
  std::vector<uint64_t> sizes;

  bool empty() const { return nodes.empty() && edges.empty() && sizes.empty(); }
};

struct PartitionOptions {
  static constexpr uint32_t kMaxParts = 1 << 20;  // With trainers counted.
  static constexpr uint32_t kMaxHops = 16;
  static constexpr uint32_t kMaxClasses = 256;  // Of all node sets together.

  uint32_t num_parts = 2;
  PartMethod method = PartMethod::kAutomatic;
  PartScheme scheme = PartScheme::kKWay;
  PartObjective objective = PartObjective::kCut;
  PartQuality quality = PartQuality::kDefault;
  // T > 1: the nodes are dealt to num_parts * T trainers, T of them to a part.
  uint32_t trainers_per_machine = 1;
  uint32_t num_hops = 1;  // Depth of the halo. 0 is refused: cut edges would belong nowhere.
  HaloKind halo = HaloKind::kPartitionGraph;
  // Node sets that are not named are one class each. With none and one node set, only the number of
  // nodes is balanced.
  std::vector<NodeClasses> classes;
  GraphWeights weights;
  bool balance_edges = false;  // Balances in-degrees: of each class if there are several.
  // The largest part, of each thing that is balanced, over the mean. At least 1.
  double imbalance = 1.03;
  uint64_t seed = 1;
  // Memory for the assignment, beside the graph: bounds METIS's process, and decides what
  // kAutomatic takes. 0: not bounded.
  uint64_t memory_bytes = 0;
  // Calls of METIS at one time, where several are needed; each has its share of the memory.
  uint32_t parallel = 2;
  // For each call of METIS.
  absl::Duration time_limit = absl::InfiniteDuration();
};

enum class PartitionPhase {
  kReading,    // The graph, into the form that METIS takes.
  kAssigning,  // A part for each node.
  kRefining,   // Moves of our own.
  kNumbering,  // New ids.
};

// How a caller follows long work and ends it. Both functions may be empty; both are called from the
// thread that works, often: they should be quick.
struct PartitionWatch {
  std::function<bool()> cancelled;
  // `share` of the phase that is done, in [0, 1]. Of METIS nothing is known until it ends.
  std::function<void(PartitionPhase phase, double share)> progress;

  bool IsCancelled() const { return cancelled && cancelled(); }
  void Tell(PartitionPhase phase, double share) const {
    if (progress) progress(phase, share);
  }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_PARTITION_OPTIONS_H_
