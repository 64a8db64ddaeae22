// Lower bounds on packs from one component at a time, by dual feasible functions.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_DUAL_FEASIBLE_BOUND_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_DUAL_FEASIBLE_BOUND_H_

#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// A dual feasible function f gives each share x of a capacity a value, so that shares that fit
// together never have values above 1 in sum. So the sum of f over all graphs is a lower bound on
// packs. Tried are, with C for the capacity, and a parameter e of at most C / 2:
// - U_e: sizes above C - e count as C, sizes below e as 0 (Martello and Toth 1990: L2);
// - u_p: a share becomes the part of p whole steps that it covers, and shares that are multiples
//   of 1 / (p + 1) stay as they are; alone, and after U_e (Fekete and Schepers 2001);
// - phi_e: sizes of e and more count as one of floor(C / e) places, those above C / 2 as all places
//   that they leave no room for (the same).
// All sums are exact. The bound is the best of them over all components and parameters; at least 0.
//
// Less is tried if `budget` runs out: the bound that was found by then stays. For d distinct sizes
// of a component: O(d * log d) times 100 for U_e and u_p, O(d^2) for phi_e.
LowerBound ComputeDualFeasibleBound(const PackingProblem& problem, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_DUAL_FEASIBLE_BOUND_H_
