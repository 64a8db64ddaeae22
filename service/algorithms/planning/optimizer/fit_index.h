// Finds the first item, in an order that the caller gives, that fits into the room of a pack.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIT_INDEX_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/optimizer/fit_mask.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/base/vector_level.h"

namespace packhouse {

// Items are in blocks of 64, and each block has the smallest size of each component. A block is
// passed over if these smallest sizes do not fit. The smallest sizes are in blocks of 64
// themselves. Thread-compatible.
class FitIndex {
 public:
  // `order` lists items of `problem`; position p holds order[p]. O(n * m).
  FitIndex(const PackingProblem& problem, absl::Span<const uint32_t> order, VectorLevel level);

  size_t size() const { return num_positions_; }

  // The first position >= from whose item fits; size() if there is none. `room` has m entries, each
  // clipped to 2^32 - 1. At worst O(size() / 64 * m); usually a few blocks. Adds to `looks` the
  // blocks that were looked at, which are the same on every machine.
  size_t FirstFit(size_t from, const uint32_t* room, uint64_t& looks) const {
    if (from >= num_positions_) return num_positions_;
    const size_t block = from / kFitBlock;
    ++looks;
    const uint64_t mask = FitsOf(block, room) >> (from % kFitBlock);
    if (mask != 0) return from + static_cast<size_t>(__builtin_ctzll(mask));
    return FirstFitAfter(block, room, looks);
  }
  size_t FirstFit(size_t from, const uint32_t* room) const {
    uint64_t looks = 0;
    return FirstFit(from, room, looks);
  }

  // From now on the item at this position is passed over. O(64 * m).
  void Remove(size_t position);

 private:
  uint64_t FitsOf(size_t block, const uint32_t* room) const {
    return fit_mask_(items_.data() + block * kFitBlock * m_, room, m_) & present_[block];
  }
  size_t FirstFitAfter(size_t block, const uint32_t* room, uint64_t& looks) const;
  void UpdateSmallest(size_t block);

  size_t m_;
  size_t num_positions_;
  FitMaskFunction fit_mask_;
  // Sizes, [block][component][64], and a bit for each of the 64 that is present.
  std::vector<uint32_t> items_;
  std::vector<uint64_t> present_;
  // The same for blocks: the smallest size of the present items.
  std::vector<uint32_t> smallest_;
  std::vector<uint64_t> present_blocks_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_FIT_INDEX_H_
