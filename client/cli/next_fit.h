// Next-fit, the simplest packer, which jraph, PyG and TF-GNN have; and a bound that no packer can
// beat. Knows neither files nor messages.
#ifndef PACKHOUSE_CLIENT_CLI_NEXT_FIT_H_
#define PACKHOUSE_CLIENT_CLI_NEXT_FIT_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace packhouse::client {

// Stands for a graph that alone exceeds the capacities.
inline constexpr uint64_t kNoBatch = std::numeric_limits<uint64_t>::max();

// The batch of each graph, from 0 on, or kNoBatch. Fills one batch after the other in the order of
// the graphs: a graph that does not fit the open batch closes it; a graph that fits no batch closes
// nothing.
//
// `capacities` has a bound for each of l > 0 components, then one for graphs; 0 means no bound.
// `sizes` has l counts for each graph, row by row. Cost: O(sizes).
std::vector<uint64_t> NextFit(absl::Span<const uint32_t> sizes,
                              absl::Span<const uint64_t> capacities);

// No packer needs fewer batches for `rows`: the largest of rows / capacity, rounded up.
uint64_t VolumeBound(absl::Span<const uint64_t> rows, absl::Span<const uint64_t> capacities);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_NEXT_FIT_H_
