// Which items go beside one that takes most of a component and little of the others.
//
// Such an item, for example a near-clique of few nodes among sparse graphs, leaves a room that most
// items do not suit: they would fill the short component and waste the others. The few items that
// suit it are worth most there. So they are taken for it, the nearest in shape first, and not by
// chance for some other pack.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_LOPSIDED_ROOMS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_LOPSIDED_ROOMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

// Thread-compatible. Refers to `problem`. At most 4 * m bytes for each item.
class LopsidedRooms {
 public:
  explicit LopsidedRooms(const PackingProblem& problem);

  // Learns the counts that are left. O(n * m).
  void Learn(absl::Span<const uint64_t> left, WorkBudget& budget);

  // Whether the item takes more than half of a component, so that it makes a room of its own.
  bool IsLarge(uint32_t item) const { return problem_.LargestShare(item) > 0.5; }

  // For the room beside a large item: the item whose shape is the most like the room's, of those
  // that fit and that `is_left`. Nullopt if the room is full, if mean items fill it as well, or if
  // no item near to its shape fits. O(log n), and O(n log n) the first time after Learn().
  std::optional<uint32_t> Companion(absl::Span<const uint64_t> room,
                                    absl::FunctionRef<bool(uint32_t)> is_left, WorkBudget& budget);

 private:
  bool Fits(uint32_t item, absl::Span<const uint64_t> room) const;
  // Mean items that component k of the room takes.
  double Times(absl::Span<const uint64_t> room, size_t k) const;
  const std::vector<uint32_t>& ByShape(size_t k, WorkBudget& budget);

  const PackingProblem& problem_;
  std::vector<uint64_t> left_;
  std::vector<double> mean_;  // Of items that are not large.
  size_t heaviest_ = 0;       // The component that has most of its packs' room taken.
  // [component] Items that are left, ascending by their size there for a row of the heaviest.
  std::vector<std::vector<uint32_t>> by_shape_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_LOPSIDED_ROOMS_H_
