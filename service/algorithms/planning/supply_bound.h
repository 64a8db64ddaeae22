// A lower bound on packs where large graphs compete for the few that suit the room beside them.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_SUPPLY_BOUND_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_SUPPLY_BOUND_H_

#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// A lifted volume bound of two components at a time. For example, near-cliques leave room for many
// nodes and few edges. Each could be filled up with the sparsest graphs, but there are not enough
// of these for all.
//
// With weights p and q, a graph counts as z = min(p * nodes, q * edges). Graphs that are together
// within some room have at most z of that room in sum, since a minimum of sums is never less than
// the sum of the minima. So z is one more component, whose capacity is z of a whole pack. A graph
// that takes more than half of a component shares its pack with no other such graph. So it may
// count for all of the pack but z of the room beside it. The bound is the best over the weights; it
// is what the linear program says if graphs could be cut at will.
//
// All components take both parts. Two that would need more than an eighth of the steps that are
// left in `budget` are passed over; if the caller gives up, the bound is the one so far. 0 if there
// is none, or no graph takes more than half of a component. Exact sums. O(n * m^2) times 80.
LowerBound ComputeSupplyBound(const PackingProblem& problem, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_SUPPLY_BOUND_H_
