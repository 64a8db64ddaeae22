#include "service/algorithms/planning/dual_feasible_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"

namespace packhouse {
namespace {

// The steps that a share may be divided into. Beyond these, gains are rare.
constexpr uint64_t kMostSteps = 100;
// Parameters of phi_e for which all large sizes are looked at.
constexpr size_t kMostPlaceWidths = 4096;

// The sizes of one component.
class ComponentSizes {
 public:
  ComponentSizes(const PackingProblem& problem, size_t k) : capacity_(problem.capacity(k)) {
    std::vector<std::pair<uint32_t, uint64_t>> sizes;
    for (size_t i = 0; i < problem.num_items(); ++i) {
      if (problem.count(i) != 0 && problem.sizes(i)[k] != 0) {
        sizes.emplace_back(problem.sizes(i)[k], problem.count(i));
      }
    }
    std::sort(sizes.begin(), sizes.end());
    for (const auto& [size, count] : sizes) {
      if (sizes_.empty() || sizes_.back() != size) {
        sizes_.push_back(size);
        counts_.push_back(0);
      }
      counts_.back() += count;
    }
    num_up_to_.assign(1, 0);
    for (const uint64_t count : counts_) num_up_to_.push_back(num_up_to_.back() + count);
  }

  size_t num_sizes() const { return sizes_.size(); }

  // The best of U_e, and of u_p after U_e.
  uint64_t BySteps(WorkBudget& budget) const {
    uint64_t best = 0;
    std::vector<absl::uint128> value_up_to(sizes_.size() + 1);
    for (uint64_t p = 0; p <= kMostSteps; ++p) {
      if (!budget.Spend(2 * sizes_.size())) break;
      // In units of 1 / whole.
      const absl::uint128 whole = p == 0 ? absl::uint128(capacity_) : absl::uint128(capacity_) * p;
      value_up_to[0] = 0;
      for (size_t s = 0; s < sizes_.size(); ++s) {
        value_up_to[s + 1] = value_up_to[s] + absl::uint128(Steps(sizes_[s], p)) * counts_[s];
      }
      for (size_t first = 0; first < sizes_.size(); ++first) {
        // Between two sizes, the larger e is the better one.
        const uint64_t least = std::min<uint64_t>(sizes_[first], capacity_ / 2);
        const size_t large = Above(capacity_ - least);
        if (large < first) break;
        best = std::max(best, Packs(value_up_to[large] - value_up_to[first] +
                                        whole * (num_up_to_.back() - num_up_to_[large]),
                                    whole));
        if (sizes_[first] * uint64_t{2} > capacity_) break;
      }
    }
    return best;
  }

  // The best of phi_e.
  uint64_t ByPlaces(WorkBudget& budget) const {
    uint64_t best = 0;
    for (const uint64_t width : PlaceWidths()) {
      const size_t first = Above(width - 1);
      const size_t large = Above(capacity_ / 2);
      if (!budget.Spend(sizes_.size() - std::min(first, large))) break;
      const uint64_t places = capacity_ / width;
      absl::uint128 taken = 0;
      if (first < large) taken = num_up_to_[large] - num_up_to_[first];
      for (size_t s = large; s < sizes_.size(); ++s) {
        taken += absl::uint128(places - (capacity_ - sizes_[s]) / width) * counts_[s];
      }
      best = std::max(best, Packs(taken, places));
    }
    return best;
  }

 private:
  static uint64_t Packs(absl::uint128 value, absl::uint128 whole) {
    return static_cast<uint64_t>((value + whole - 1) / whole);
  }
  // u_p of a size, in units of 1 / (capacity * p); p = 0: the size itself, in units of 1 /
  // capacity.
  uint64_t Steps(uint64_t size, uint64_t p) const {
    if (p == 0) return size;
    const uint64_t scaled = (p + 1) * size;  // Below 101 * 2^32.
    return scaled % capacity_ == 0 ? size * p : scaled / capacity_ * capacity_;
  }
  // The number of sizes that are at most `size`, which is the place of the first one above it.
  size_t Above(uint64_t size) const {
    return static_cast<size_t>(std::upper_bound(sizes_.begin(), sizes_.end(), size) -
                               sizes_.begin());
  }
  // The sizes up to half of the capacity, and the least width of each number of places.
  std::vector<uint64_t> PlaceWidths() const {
    std::vector<uint64_t> widths;
    const size_t small = Above(capacity_ / 2);
    const size_t stride = small / kMostPlaceWidths + 1;
    for (size_t s = 0; s < small; s += stride) widths.push_back(sizes_[s]);
    for (uint64_t places = 2; places <= kMostSteps; ++places) {
      const uint64_t width = capacity_ / (places + 1) + 1;
      if (width <= capacity_ / 2) widths.push_back(width);
    }
    return widths;
  }

  const uint64_t capacity_;
  std::vector<uint32_t> sizes_;      // Ascending, without 0.
  std::vector<uint64_t> counts_;     // Of each size.
  std::vector<uint64_t> num_up_to_;  // [s]: of the first s sizes.
};

}  // namespace

LowerBound ComputeDualFeasibleBound(const PackingProblem& problem, WorkBudget& budget) {
  LowerBound bound;
  bound.kind = LowerBoundKind::kLiftedVolume;
  for (size_t k = 0; k < problem.num_components(); ++k) {
    const ComponentSizes sizes(problem, k);
    if (sizes.num_sizes() == 0) continue;
    const uint64_t packs = std::max(sizes.BySteps(budget), sizes.ByPlaces(budget));
    if (packs > bound.packs) bound = {packs, LowerBoundKind::kLiftedVolume, problem.original(k)};
  }
  return bound;
}

}  // namespace packhouse
