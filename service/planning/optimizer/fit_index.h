// Finds the first item, in an order of the caller's, that fits into the room that is left.
#ifndef PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_FIT_INDEX_H_
#define PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_FIT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/base/vector_level.h"
#include "service/planning/optimizer/fit_mask.h"
#include "service/planning/packing_problem.h"

namespace packhouse {

// Items in blocks of 64, with the smallest size of each component in each block: a block of which
// not even the smallest fits is passed over. The blocks' smallest sizes are themselves in blocks.
// Thread-compatible.
class FitIndex {
 public:
  // `order` lists items of `problem`; position p holds order[p]. O(n * m).
  FitIndex(const PackingProblem& problem, absl::Span<const uint32_t> order, VectorLevel level);

  size_t size() const { return num_positions_; }

  // The first position >= from whose item fits, size() if there is none. `room` has m entries, each
  // clipped to 2^32 - 1. O(size() / 64 * m) at worst, a few blocks in most cases.
  size_t FirstFit(size_t from, const uint32_t* room) const {
    if (from >= num_positions_) return num_positions_;
    const size_t block = from / kFitBlock;
    const uint64_t mask = FitsOf(block, room) >> (from % kFitBlock);
    if (mask != 0) return from + static_cast<size_t>(__builtin_ctzll(mask));
    return FirstFitAfter(block, room);
  }

  // The item there fits nowhere any more. O(64 * m).
  void Remove(size_t position);

 private:
  uint64_t FitsOf(size_t block, const uint32_t* room) const {
    return fit_mask_(items_.data() + block * kFitBlock * m_, room, m_) & present_[block];
  }
  size_t FirstFitAfter(size_t block, const uint32_t* room) const;
  void UpdateSmallest(size_t block);

  size_t m_;
  size_t num_positions_;
  FitMaskFunction fit_mask_;
  // Sizes, [block][component][64], and which of the 64 are there.
  std::vector<uint32_t> items_;
  std::vector<uint64_t> present_;
  // The same of the blocks: the smallest size of those present.
  std::vector<uint32_t> smallest_;
  std::vector<uint64_t> present_blocks_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_FIT_INDEX_H_
