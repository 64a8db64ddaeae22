// The memory of a planner without its patterns, for callers that reserve it.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLANNER_BYTES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLANNER_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace packhouse {

// At most the bytes that any planner takes for a histogram of this many distinct sizes: tables of
// sizes, counts and orders, with those for verifying and measuring the plan. Without the planner's
// patterns and the histogram.
uint64_t PlannerBytes(uint64_t num_distinct, size_t num_components);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLANNER_BYTES_H_
