// How few packs any plan must have.
#ifndef PACKHOUSE_SERVICE_PLANNING_LOWER_BOUND_H_
#define PACKHOUSE_SERVICE_PLANNING_LOWER_BOUND_H_

#include <cstddef>
#include <cstdint>

#include "service/planning/limits.h"
#include "service/sizes/size_histogram.h"

namespace packhouse {

struct VolumeBound {
  uint64_t packs = 0;
  // The component that gives it; l is `graphs`. The first one in a tie.
  size_t component = 0;
};

// max over components of ceil(total / capacity), each capacity first floored to a multiple of the
// gcd of the sizes in that component (with even edge counts a capacity of 1105 holds 1104). At
// least 1 unless the histogram is empty. Requires that each graph fits by itself. O(d * l).
VolumeBound ComputeVolumeBound(const SizeHistogram& histogram, const Limits& limits);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_LOWER_BOUND_H_
