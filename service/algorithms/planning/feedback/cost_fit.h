// A linear law with few, noisy, nearly collinear observations: what a batch costs as a constant and
// so much for each row of a component.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_COST_FIT_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_COST_FIT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

// One shape and what its batches cost.
struct CostPoint {
  // All points have the same number.
  std::vector<uint64_t> capacities;
  double value = 0;   // Above 0.
  double weight = 1;  // Above 0.
};

// value = max(least, fixed + sum of per_row * capacity). No number is negative.
struct CostFit {
  double fixed = 0;
  std::vector<double> per_row;
  // The knee: batches smaller than this all cost the same, for instance since they leave most of
  // the device idle. 0: the points show none.
  double least = 0;
  // The median over the points of |value - predicted| / value.
  double spread = 0;

  // O(components).
  double ValueOf(absl::Span<const uint64_t> capacities) const;
};

// The non-negative law with the least weighted sum of absolute deviations (Boscovich; by
// iteratively reweighted least squares, each step by Lawson and Hanson's active sets), so that a
// point that is far off counts no more than one that is just off. What the points do not tell apart
// is divided evenly: with one shape the constant and each component have the same share of its
// cost. `graphs`, the last component, then gets hardly anything, since rows are what devices work
// on. A knee is told if there are at least 6 points, at most 17 components, and it takes a third
// off the deviations.
//
// Empty per_row if there are no points. Same points, same law. O(points * components^2) time for
// each of some hundred steps, at most.
CostFit FitCost(absl::Span<const CostPoint> points);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_FEEDBACK_COST_FIT_H_
