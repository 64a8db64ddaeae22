// The most valuable pattern, exactly: a knapsack over all components at once.
#ifndef PACKHOUSE_SERVICE_PLANNING_PATTERN_PRICING_H_
#define PACKHOUSE_SERVICE_PLANNING_PATTERN_PRICING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/planning/packing_problem.h"
#include "service/planning/plan.h"
#include "service/planning/vector_kernels.h"

namespace packhouse {

// For values v_i of the items, finds the multiset of items that fits a pack and is worth most, by
// dynamic programming over every room that a pack can have (Gilmore and Gomory 1966). Copies are
// not bounded by counts: what it gives is a bound for any counts. Thread-compatible.
class PatternPricing {
 public:
  // Rooms there are: product of capacity + 1; UINT64_MAX if more than that.
  static uint64_t NumRooms(const PackingProblem& problem);

  // O(NumRooms) memory, 4 bytes each.
  PatternPricing(const PackingProblem& problem, VectorLevel level);

  // Largest that the worth of any pattern may be.
  static constexpr int32_t kMaxWorth = INT32_MAX / 2;

  // Solves for `values`, one an item, not negative; no pattern may be worth more than kMaxWorth.
  // O(NumRooms * n), less where items are dominated by others.
  void Solve(absl::Span<const int32_t> values);

  // Of the last Solve: the worth of the best pattern.
  int32_t Best() const { return worth_.back(); }
  // Of the best pattern in the room beside item i.
  int32_t WorthBeside(size_t i) const { return worth_[worth_.size() - 1 - offsets_[i]]; }
  // Of the best one with item i.
  int32_t BestWith(size_t i) const { return values_[i] + WorthBeside(i); }
  // That pattern, items ascending; repeats 0. O(entries * n).
  Pattern PatternWith(size_t i) const;
  // Steps of the last Solve, in nanoseconds of 2020 or so.
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

#endif  // PACKHOUSE_SERVICE_PLANNING_PATTERN_PRICING_H_
