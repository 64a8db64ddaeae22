// Lower bounds on packs from the linear programs of single components.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_COMPONENT_PROGRAM_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_COMPONENT_PROGRAM_H_

#include <cstdint>

#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/vector_level.h"

namespace packhouse {

// At most the bytes that ComponentProgramBound takes for this many distinct sizes.
uint64_t ComponentProgramBytes(uint64_t num_distinct);

// A plan of all components is a plan of each one alone. So the linear program over the patterns of
// one component (Gilmore and Gomory 1961), whose pricing is cheap even where that of all components
// together is not, gives a lower bound. If the number of graphs in a pack is limited, it is a
// second component of these programs. Returns the largest bound that is above `known`, or `known`.
//
// A component is left out if it has too many distinct sizes or rooms, or if first-fit decreasing
// packs it into `known` packs, so that its program cannot give more. Each program may take half
// of the steps that `budget` has left. Deterministic; thread-safe.
uint64_t ComponentProgramBound(const PackingProblem& problem, uint64_t known, VectorLevel level,
                               WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_COMPONENT_PROGRAM_H_
