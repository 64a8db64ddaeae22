#include "service/algorithms/planning/pattern_pricing.h"

#include <algorithm>
#include <numeric>

#include "service/base/checked_arithmetic.h"

namespace packhouse {
namespace {

// For all rooms together, for a row of rooms that takes an item, and for the rooms of such a row.
uint64_t StepsOfStart(uint64_t rooms) { return rooms / 8; }
uint64_t StepsOfRow(uint64_t rooms) { return 4 + rooms / 16; }

}  // namespace

uint64_t PatternPricing::NumRooms(const PackingProblem& problem) {
  uint64_t rooms = 1;
  for (const uint64_t capacity : problem.capacities()) {
    const auto extent = CheckedAdd(capacity, 1);
    const auto product = extent ? CheckedMultiply(rooms, *extent) : std::nullopt;
    if (!product) return UINT64_MAX;
    rooms = *product;
  }
  return rooms;
}

uint64_t PatternPricing::MostSteps(const PackingProblem& problem) {
  const size_t m = problem.num_components();
  uint64_t steps = StepsOfStart(NumRooms(problem));
  for (size_t i = 0; i < problem.num_items() && m != 0; ++i) {
    uint64_t rows = 1;
    for (size_t k = 0; k + 1 < m; ++k) rows *= problem.capacity(k) + 1 - problem.sizes(i)[k];
    steps += rows * StepsOfRow(problem.capacity(m - 1) + 1 - problem.sizes(i)[m - 1]);
  }
  return steps;
}

PatternPricing::PatternPricing(const PackingProblem& problem, VectorLevel level)
    : m_(problem.num_components()), kernels_(VectorKernelsOf(level)) {
  strides_.resize(m_);
  size_t stride = 1;
  for (size_t k = m_; k-- > 0;) {
    strides_[k] = stride;
    stride *= problem.capacity(k) + 1;
  }
  for (size_t k = 0; k < m_; ++k) extents_.push_back(problem.capacity(k) + 1);
  worth_.resize(stride);
  for (size_t i = 0; i < problem.num_items(); ++i) {
    size_t offset = 0;
    for (size_t k = 0; k < m_; ++k) {
      sizes_.push_back(problem.sizes(i)[k]);
      offset += problem.sizes(i)[k] * strides_[k];
    }
    offsets_.push_back(offset);
    smallest_first_.push_back(static_cast<uint32_t>(i));
  }
  // Rooms are numbered so that a comes before b if a fits into b.
  std::sort(smallest_first_.begin(), smallest_first_.end(), [&](uint32_t a, uint32_t b) {
    return offsets_[a] != offsets_[b] ? offsets_[a] < offsets_[b] : a < b;
  });
}

void PatternPricing::Solve(absl::Span<const int32_t> values) {
  values_.assign(values.begin(), values.end());
  std::fill(worth_.begin(), worth_.end(), 0);
  relevant_.clear();
  steps_ = StepsOfStart(worth_.size());
  const size_t width = m_ == 0 ? 1 : extents_[m_ - 1];
  std::vector<size_t> row(m_);
  for (const uint32_t item : smallest_first_) {
    if (offsets_[item] == 0 || worth_[offsets_[item]] >= values_[item]) continue;
    relevant_.push_back(item);
    const uint32_t* const sizes = sizes_.data() + item * m_;
    const size_t last = sizes[m_ - 1];
    const bool same_row = offsets_[item] == last;
    // Every row of rooms (along the last component) that takes the item. Ascending, so that the
    // room beside the item may hold the item again.
    for (size_t k = 0; k + 1 < m_; ++k) row[k] = sizes[k];
    size_t at = offsets_[item] - last;
    for (;;) {
      int32_t* const to = worth_.data() + at + last;
      const int32_t* const from = worth_.data() + at + last - offsets_[item];
      if (same_row) {
        for (size_t i = 0; i + last < width; ++i) {
          to[i] = std::max(to[i], from[i] + values_[item]);
        }
      } else {
        kernels_.max_plus(to, from, values_[item], width - last);
      }
      steps_ += StepsOfRow(width - last);
      size_t k = m_ - 1;
      while (k-- > 0) {
        at += strides_[k];
        if (++row[k] < extents_[k]) break;
        at -= (extents_[k] - sizes[k]) * strides_[k];
        row[k] = sizes[k];
      }
      if (k == static_cast<size_t>(-1)) break;
    }
  }
}

Pattern PatternPricing::PatternWith(size_t i) const {
  // Back through the table, from the room beside item i: any item explains the worth of a room
  // that, with the worth of what it leaves, adds up to it.
  std::vector<uint32_t> items = {static_cast<uint32_t>(i)};
  size_t at = worth_.size() - 1 - offsets_[i];
  std::vector<size_t> room(m_);
  for (size_t k = 0; k < m_; ++k) room[k] = at / strides_[k] % extents_[k];
  while (worth_[at] > 0) {
    for (const uint32_t item : relevant_) {
      const uint32_t* const sizes = sizes_.data() + item * m_;
      bool fits = true;
      for (size_t k = 0; k < m_ && fits; ++k) fits = sizes[k] <= room[k];
      if (!fits || worth_[at - offsets_[item]] + values_[item] != worth_[at]) continue;
      items.push_back(item);
      at -= offsets_[item];
      for (size_t k = 0; k < m_; ++k) room[k] -= sizes[k];
      break;
    }
  }
  std::sort(items.begin(), items.end());
  Pattern pattern;
  for (const uint32_t item : items) {
    if (!pattern.entries.empty() && pattern.entries.back().tuple == item) {
      ++pattern.entries.back().copies;
    } else {
      pattern.entries.push_back({item, 1});
    }
  }
  return pattern;
}

}  // namespace packhouse
