// The memory that a planner takes but for its patterns, for callers that reserve it.
#ifndef PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_PLANNER_BYTES_H_
#define PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_PLANNER_BYTES_H_

#include <cstddef>
#include <cstdint>

namespace packhouse {

// At most what a planner takes for a histogram of so many distinct sizes, whichever it is, but for
// its patterns, and what verifying and measuring the plan takes: tables of sizes, counts and
// orders, the histogram not among them.
uint64_t PlannerBytes(uint64_t num_distinct, size_t num_components);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_PLANNER_BYTES_H_
