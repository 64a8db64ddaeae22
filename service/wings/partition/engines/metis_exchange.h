// How a call of METIS passes between the service and the program packhouse-metis: by shared memory.
// Both are of one build.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_METIS_EXCHANGE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_METIS_EXCHANGE_H_

#include <cstdint>

namespace packhouse {

// File descriptors of the program.
inline constexpr int kMetisCallFile = 3;        // A MetisCall, and the arrays behind it.
inline constexpr int kMetisNeighboursFile = 4;  // int32, num_entries.
inline constexpr int kMetisWeightsFile = 5;     // The same; open only if has_edge_weights.

// What the program is told, and at its end says.
struct MetisCall {
  static constexpr uint64_t kMagic = 0x31736974656d6870;  // "phmetis1"

  uint64_t magic = kMagic;
  uint64_t file_bytes = 0;  // Of this file.
  uint64_t num_entries = 0;
  uint64_t heap_bytes = 0;  // That the program may take beside what is shared; 0: no bound.
  int32_t parent = 0;       // Process id: the program ends with it.
  int32_t num_nodes = 0;
  int32_t num_constraints = 1;
  int32_t num_parts = 0;
  int32_t recursive = 0;
  int32_t volume = 0;
  int32_t seed = 0;
  int32_t has_edge_weights = 0;

  // Said by the program.
  int32_t ended = 0;   // 1 once `status` and the parts are there.
  int32_t status = 0;  // METIS's.
  int32_t objective = 0;
  int32_t has_sizes = 0;  // Said by the caller.
  // Behind it: float imbalance[num_constraints], int32 offsets[num_nodes + 1],
  // int32 node_weights[num_nodes * num_constraints], int32 part[num_nodes], and if has_sizes
  // int32 sizes[num_nodes].

  uint64_t imbalance_at() const { return sizeof(MetisCall); }
  uint64_t offsets_at() const { return imbalance_at() + uint64_t(num_constraints) * 4; }
  uint64_t node_weights_at() const { return offsets_at() + (uint64_t(num_nodes) + 1) * 4; }
  uint64_t part_at() const {
    return node_weights_at() + uint64_t(num_nodes) * uint64_t(num_constraints) * 4;
  }
  uint64_t sizes_at() const { return part_at() + uint64_t(num_nodes) * 4; }
  uint64_t bytes() const { return sizes_at() + (has_sizes != 0 ? uint64_t(num_nodes) * 4 : 0); }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_ENGINES_METIS_EXCHANGE_H_
