// The most valuable pattern, exactly: a knapsack over all components at once.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PATTERN_PRICING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PATTERN_PRICING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/vector_kernels.h"

namespace packhouse {

// For values v_i of the items, finds the multiset of items that fits a pack and is worth most, by
// dynamic programming over every room that a pack can have (Gilmore and Gomory 1966). Counts do not
// bound the copies, so that the result is a bound for any counts. Thread-compatible.
class PatternPricing {
 public:
  // The number of rooms: product of (capacity + 1) over the components; UINT64_MAX if it exceeds
  // that.
  static uint64_t NumRooms(const PackingProblem& problem);

  // The most steps of one Solve, if no item dominates another: items that are large leave few rooms
  // to look at. Requires that NumRooms is below 2^32. O(n * m).
  static uint64_t MostSteps(const PackingProblem& problem);

  // O(NumRooms) memory, 4 bytes each.
  PatternPricing(const PackingProblem& problem, VectorLevel level);

  // The largest worth that a pattern may have.
  static constexpr int32_t kMaxWorth = INT32_MAX / 2;

  // Solves for `values`, one for each item, not negative. No pattern may be worth more than
  // kMaxWorth. O(NumRooms * n), less if some items dominate others.
  void Solve(absl::Span<const int32_t> values);

  // After Solve: the worth of the best pattern.
  int32_t Best() const { return worth_.back(); }
  // The worth of the best pattern in the room beside item i.
  int32_t WorthBeside(size_t i) const { return worth_[worth_.size() - 1 - offsets_[i]]; }
  // The worth of the best pattern with item i.
  int32_t BestWith(size_t i) const { return values_[i] + WorthBeside(i); }
  // The pattern of BestWith(i), items ascending; repeats is 0. O(entries * n).
  Pattern PatternWith(size_t i) const;
  // Steps of the last Solve, about a nanosecond each on a machine of 2020.
  uint64_t LastSteps() const { return steps_; }

 private:
  size_t m_;
  std::vector<size_t> extents_;  // capacity + 1
  std::vector<size_t> strides_;  // Of worth_; the last is 1.
  std::vector<uint32_t> sizes_;  // [item][component]
  std::vector<size_t> offsets_;  // sum of size * stride
  std::vector<uint32_t> smallest_first_;
  VectorKernels kernels_;

  std::vector<int32_t> values_;
  std::vector<uint32_t> relevant_;  // Items that are better than any pattern of smaller ones.
  std::vector<int32_t> worth_;      // [room]
  uint64_t steps_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_PATTERN_PRICING_H_
