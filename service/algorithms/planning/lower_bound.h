// Lower bounds on the packs of any plan.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_LOWER_BOUND_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_LOWER_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/vector_level.h"

namespace packhouse {

enum class LowerBoundKind {
  // Total of one component over its capacity.
  kVolume,
  // The same, with each large graph counted for the room that nothing else can fill beside it.
  kLiftedVolume,
  // The linear program over all patterns (Gilmore and Gomory 1961), in whole numbers.
  kLinearProgram,
};

struct LowerBound {
  // No plan has fewer packs.
  uint64_t packs = 0;
  LowerBoundKind kind = LowerBoundKind::kVolume;
  // The component that gives the bound; l is `graphs`. In a tie, the first. Not for kLinearProgram.
  size_t component = 0;
};

// "volume of nodes", "lifted volume of nodes", "linear program".
std::string LowerBoundName(const LowerBound& bound, const SizeSchema& schema);

// The maximum over components of ceil(total / capacity). Each capacity is first floored to a
// multiple of the gcd of the sizes in that component (if all edge counts are even, a capacity of
// 1105 holds 1104). At least 1 unless the histogram is empty. Requires that each graph fits by
// itself. O(d * l).
LowerBound ComputeVolumeBound(const SizeHistogram& histogram, const Limits& limits);

// A bound at least as high as the volume bound of each component that can bind. A pack holds at
// most one graph that takes more than half of a capacity. Such a graph can be counted for all the
// room in its pack that other graphs cannot fill, even if these may be as large together as they
// like. In the literature: volume bounds lifted by a dual feasible function.
//
// The room that others can fill is found exactly if a pack can have few rooms (pattern_pricing.h),
// else by ratios between components. 0 if `budget` ran out. O(n * m^2), or the cost of one pricing
// for each two components.
LowerBound ComputeLiftedVolumeBound(const PackingProblem& problem, VectorLevel level,
                                    WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_LOWER_BOUND_H_
