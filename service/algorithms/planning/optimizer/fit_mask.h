// Which of 64 items fit into a pack's room: the innermost loop of packing.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIT_MASK_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIT_MASK_H_

#include <cstddef>
#include <cstdint>

#include "service/base/vector_level.h"

namespace packhouse {

// Items in a block.
inline constexpr size_t kFitBlock = 64;

// Bit i is set if item i fits: block[k * 64 + i] <= room[k] for all k < l. Each component is a row
// of 64 sizes. No alignment is needed. O(64 * l).
using FitMaskFunction = uint64_t (*)(const uint32_t* block, const uint32_t* room, size_t l);

// This machine must have `level`.
FitMaskFunction FitMaskOf(VectorLevel level);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIT_MASK_H_
