// What packing must beat: the simplest packer, and the bound no packer can beat.
#ifndef PACKHOUSE_CLIENT_CLI_NEXT_FIT_H_
#define PACKHOUSE_CLIENT_CLI_NEXT_FIT_H_

#include <cstdint>
#include <vector>

#include "client/cli/files/sizes_file.h"

namespace packhouse::client {

struct PackingTotals {
  uint64_t batches = 0;
  uint64_t graphs = 0;
  // Graphs that exceed the capacities alone; they are in no batch and in no total.
  uint64_t rejected = 0;
  // Real rows per component, then graphs.
  std::vector<uint64_t> rows;
};

// Fills one batch after the other in arrival order: a graph that does not fit the open batch closes
// it. `capacities` has one bound per component, then one for graphs; 0 means no bound. `sizes` is
// expanded, one row a graph.
// Cost: O(values).
PackingTotals NextFit(const GraphSizes& sizes, const std::vector<uint64_t>& capacities);

// No packer needs fewer batches for `rows`: the largest of rows / capacity, rounded up.
uint64_t VolumeBound(const std::vector<uint64_t>& rows, const std::vector<uint64_t>& capacities);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_NEXT_FIT_H_
