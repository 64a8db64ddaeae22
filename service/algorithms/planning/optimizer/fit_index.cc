#include "service/algorithms/planning/optimizer/fit_index.h"

#include <algorithm>

namespace packhouse {
namespace {

size_t BlocksFor(size_t n) { return (n + kFitBlock - 1) / kFitBlock; }

}  // namespace

FitIndex::FitIndex(const PackingProblem& problem, absl::Span<const uint32_t> order,
                   VectorLevel level)
    : m_(problem.num_components()), num_positions_(order.size()), fit_mask_(FitMaskOf(level)) {
  const size_t num_blocks = BlocksFor(order.size());
  items_.resize(num_blocks * kFitBlock * m_);
  present_.resize(num_blocks);
  smallest_.resize(BlocksFor(num_blocks) * kFitBlock * m_);
  present_blocks_.resize(BlocksFor(num_blocks));
  for (size_t p = 0; p < order.size(); ++p) {
    const size_t block = p / kFitBlock;
    for (size_t k = 0; k < m_; ++k) {
      items_[(block * m_ + k) * kFitBlock + p % kFitBlock] = problem.sizes(order[p])[k];
    }
    present_[block] |= uint64_t{1} << (p % kFitBlock);
  }
  for (size_t block = 0; block < num_blocks; ++block) UpdateSmallest(block);
}

void FitIndex::UpdateSmallest(size_t block) {
  const size_t parent = block / kFitBlock;
  const uint64_t bit = uint64_t{1} << (block % kFitBlock);
  if (present_[block] == 0) {
    present_blocks_[parent] &= ~bit;
    return;
  }
  present_blocks_[parent] |= bit;
  for (size_t k = 0; k < m_; ++k) {
    const uint32_t* const row = items_.data() + (block * m_ + k) * kFitBlock;
    uint32_t smallest = UINT32_MAX;
    for (uint64_t left = present_[block]; left != 0; left &= left - 1) {
      smallest = std::min(smallest, row[__builtin_ctzll(left)]);
    }
    smallest_[(parent * m_ + k) * kFitBlock + block % kFitBlock] = smallest;
  }
}

size_t FitIndex::FirstFitAfter(size_t block, const uint32_t* room, uint64_t& looks) const {
  const size_t next = block + 1;
  for (size_t parent = next / kFitBlock; parent < present_blocks_.size(); ++parent) {
    ++looks;
    uint64_t blocks =
        fit_mask_(smallest_.data() + parent * kFitBlock * m_, room, m_) & present_blocks_[parent];
    if (parent == next / kFitBlock) blocks &= ~uint64_t{0} << (next % kFitBlock);
    for (; blocks != 0; blocks &= blocks - 1) {
      const size_t candidate = parent * kFitBlock + static_cast<size_t>(__builtin_ctzll(blocks));
      ++looks;
      const uint64_t mask = FitsOf(candidate, room);
      if (mask != 0) return candidate * kFitBlock + static_cast<size_t>(__builtin_ctzll(mask));
    }
  }
  return num_positions_;
}

void FitIndex::Remove(size_t position) {
  const size_t block = position / kFitBlock;
  present_[block] &= ~(uint64_t{1} << (position % kFitBlock));
  UpdateSmallest(block);
}

}  // namespace packhouse
