// The parts of a graph, one at a time: what each holds, in its own local ids.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_PART_CUTTER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_PART_CUTTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// One part. Local nodes: the inner ones, which the part owns, in the order of their new ids; then
// the halo, likewise. Local edges likewise: an inner edge is one whose target is inner. An edge or
// node is inner exactly if its local id is below the number of inner ones.
struct Part {
  uint32_t number = 0;
  uint64_t num_inner_nodes = 0;
  uint64_t num_inner_edges = 0;
  // Of local nodes: new and original homogeneous ids.
  std::vector<uint32_t> nodes;
  std::vector<uint32_t> original_nodes;
  // Of local edges: new and original homogeneous ids.
  std::vector<uint64_t> edges;
  std::vector<uint64_t> original_edges;
  // Of local edges: local ids of their ends.
  std::vector<uint32_t> sources;
  std::vector<uint32_t> targets;
};

// Cuts parts out, in any order. Thread-compatible: one for each thread.
class PartCutter {
 public:
  // `ids` must outlive it. `num_hops` is at least 1; 1 with HaloKind::kInEdges. Takes 4 bytes a
  // node of the whole graph.
  PartCutter(const NewIds* ids, uint32_t num_hops, HaloKind halo);

  // Part `number`, below ids.num_parts(). What it holds depends on the graph, the parts, the hops
  // and the kind of halo only.
  //
  // O(edges of the part, d log d for the d of its halo), whatever the size of the rest of the
  // graph; 24 bytes for each of its edges and 8 for each of its nodes, and about as much for its
  // halo again while it works. CANCELLED by `watch`.
  absl::StatusOr<Part> Cut(uint32_t number, const PartitionWatch& watch = {});

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  static constexpr uint32_t kExpanded = UINT32_MAX - 1;  // All its in-edges are in the part.

  struct HaloEdge {
    uint64_t id;  // New.
    uint64_t original;
    uint32_t source;  // New ids.
    uint32_t target;
  };

  void TakeInnerEdges(const IdRange& inner, Part& part);
  void TakeEdgesInOrder(Part& part);
  std::vector<HaloEdge> CollectHalo(const IdRange& inner, Part& part);
  void TakeInEdges(uint32_t node, std::vector<HaloEdge>& edges);
  void TakeOutEdges(const IdRange& inner, Part& part, std::vector<HaloEdge>& edges);
  // Adds a node to `joined` if it is not in the part, and says whether it did.
  bool Join(uint32_t node, std::vector<uint32_t>& joined);

  const NewIds* const ids_;
  const uint32_t num_hops_;
  const HaloKind halo_;
  // By new id: the local id, kAbsent or kExpanded. All are kAbsent between calls.
  std::vector<uint32_t> local_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_PART_CUTTER_H_
