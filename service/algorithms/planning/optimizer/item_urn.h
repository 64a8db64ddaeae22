// Random draws from counts that fall.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_ITEM_URN_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_ITEM_URN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"

namespace packhouse {

// Draws items in proportion to their counts. Counts only fall. Partial sums are in a tree (Fenwick
// 1994).
class ItemUrn {
 public:
  explicit ItemUrn(absl::Span<const uint64_t> counts) : tree_(counts.size() + 1) {
    for (size_t i = 0; i < counts.size(); ++i) tree_[i + 1] = counts[i];
    for (size_t i = 1; i < tree_.size(); ++i) {
      const size_t parent = i + (i & -i);
      if (parent < tree_.size()) tree_[parent] += tree_[i];
      total_ += counts[i - 1];
    }
    while (2 * top_ < tree_.size()) top_ *= 2;
  }

  uint64_t total() const { return total_; }

  uint32_t Draw(SeededRandom& random) const {
    uint64_t rank = random.Below(total_);
    size_t at = 0;
    for (size_t step = top_; step != 0; step /= 2) {
      const size_t next = at + step;
      if (next < tree_.size() && tree_[next] <= rank) {
        rank -= tree_[next];
        at = next;
      }
    }
    return static_cast<uint32_t>(at);
  }

  void Remove(uint32_t item, uint64_t count) {
    total_ -= count;
    for (size_t i = item + 1; i < tree_.size(); i += i & -i) tree_[i] -= count;
  }

 private:
  std::vector<uint64_t> tree_;
  uint64_t total_ = 0;
  size_t top_ = 1;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_ITEM_URN_H_
