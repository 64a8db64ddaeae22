#include "service/algorithms/planning/oversize_graphs.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/numeric/int128.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

std::vector<uint64_t> LeastCapacities(absl::Span<const uint32_t> sizes,
                                      const DeviceProfile& profile) {
  std::vector<uint64_t> capacities;
  for (size_t k = 0; k < profile.components.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0) {
      capacities.push_back(kUnlimited);
      continue;
    }
    // No overflow: a size has 32 bits, and multiple_of is at most max_rows.
    const uint64_t size = k < sizes.size() ? sizes[k] : 1;
    capacities.push_back(std::max(CapacityFor(component, size), SmallestCapacity(component)));
  }
  return capacities;
}

namespace {

bool IsAllowed(absl::Span<const uint64_t> capacities, const DeviceProfile& profile) {
  for (size_t k = 0; k < capacities.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows != 0 && capacities[k] > LargestCapacity(component)) return false;
  }
  return FitsMemory(profile, capacities);
}

// Finds the capacities within the memory that take the most of sizes each of which fits alone.
//
// Branch and bound over boxes of capacities: every choice in a box has at least `low` and at most
// `high` of each component. What fits `low` is surely taken, and what does not fit `high` surely
// not. A box whose `high` takes no more than the best choice so far is passed over; one whose
// `high` fits the memory is a choice; all others are cut in two. Capacities matter only where they
// are what some size needs, so they are counted as levels of these.
class MostThatFits {
 public:
  MostThatFits(const std::vector<SizeTuple>& tuples, std::vector<absl::uint128> weights,
               const DeviceProfile& profile, WorkBudget& budget)
      : profile_(profile),
        budget_(budget),
        weights_(std::move(weights)),
        width_(profile.components.size()) {
    std::vector<std::vector<uint64_t>> needed;
    needed.reserve(tuples.size());
    for (const SizeTuple& tuple : tuples) needed.push_back(LeastCapacities(tuple, profile));
    levels_.resize(width_);
    for (size_t k = 0; k < width_; ++k) {
      for (const std::vector<uint64_t>& capacities : needed) levels_[k].push_back(capacities[k]);
      std::sort(levels_[k].begin(), levels_[k].end());
      levels_[k].erase(std::unique(levels_[k].begin(), levels_[k].end()), levels_[k].end());
    }
    for (uint32_t i = 0; i < needed.size(); ++i) {
      for (size_t k = 0; k < width_; ++k) {
        level_of_.push_back(static_cast<uint32_t>(
            std::lower_bound(levels_[k].begin(), levels_[k].end(), needed[i][k]) -
            levels_[k].begin()));
      }
      bytes_.push_back(BytesOfShape(profile, needed[i]));
      order_.push_back(i);
    }
  }

  // Whether each size is taken. Empty if the caller has given up.
  std::vector<bool> Find() {
    KeepGreedily([this](uint32_t a, uint32_t b) { return bytes_[a] < bytes_[b]; });
    KeepGreedily([this](uint32_t a, uint32_t b) { return weights_[a] > weights_[b]; });
    std::iota(order_.begin(), order_.end(), 0);
    Box all;
    all.low.resize(width_);
    for (size_t k = 0; k < width_; ++k) {
      all.high.push_back(static_cast<uint32_t>(levels_[k].size() - 1));
    }
    all.end = order_.size();
    Search(std::move(all));
    if (budget_.cancelled()) return {};
    std::vector<bool> taken;
    for (uint32_t i = 0; i < order_.size(); ++i) taken.push_back(Fits(i, best_));
    return taken;
  }

 private:
  // By component, positions in levels_.
  using Levels = std::vector<uint32_t>;
  struct Box {
    Levels low;
    Levels high;
    // The weight of what fits `low`.
    absl::uint128 sure = 0;
    // The range of order_ that has what fits `high` and not `low`; and its weight.
    size_t begin = 0;
    size_t end = 0;
    absl::uint128 open = 0;
  };

  static constexpr uint64_t kMostLooks = uint64_t{1} << 26;

  bool Fits(uint32_t i, const Levels& levels) const {
    const uint32_t* const own = level_of_.data() + i * width_;
    for (size_t k = 0; k < width_; ++k) {
      if (own[k] > levels[k]) return false;
    }
    return true;
  }
  bool FitsTheMemory(const Levels& levels) const {
    std::vector<uint64_t> capacities;
    for (size_t k = 0; k < width_; ++k) capacities.push_back(levels_[k][levels[k]]);
    return FitsMemory(profile_, capacities);
  }

  void Offer(const Levels& levels, absl::uint128 weight) {
    if (!best_.empty() && weight <= best_weight_) return;
    best_ = levels;
    best_weight_ = weight;
  }

  // Takes one size after the other, as long as all together fit the memory.
  template <typename Before>
  void KeepGreedily(const Before& before) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), before);
    Levels levels(width_);
    for (const uint32_t i : order_) {
      if (!budget_.Pass(width_)) return;
      Levels with_next = levels;
      for (size_t k = 0; k < width_; ++k) {
        with_next[k] = std::max(with_next[k], level_of_[i * width_ + k]);
      }
      if (FitsTheMemory(with_next)) levels = std::move(with_next);
    }
    absl::uint128 weight = 0;
    for (const uint32_t i : order_) {
      if (Fits(i, levels)) weight += weights_[i];
    }
    Offer(levels, weight);
  }

  // Lowers `high` to what fits beside `low`, and moves what is decided out of the range.
  void Narrow(Box& box) {
    // The highest level of each component beside the lowest of all others: beyond it no choice in
    // the box fits the memory.
    for (size_t k = 0; k < width_; ++k) {
      Levels levels = box.low;
      uint32_t low = box.low[k];
      uint32_t high = box.high[k];
      while (low < high) {
        levels[k] = low + (high - low + 1) / 2;
        if (FitsTheMemory(levels)) {
          low = levels[k];
        } else {
          high = levels[k] - 1;
        }
      }
      box.high[k] = low;
    }
    // What fits `low` is kept by every choice in the box, what exceeds `high` by none; only the
    // rest is open, and `high` need be no higher than that.
    Look(box);
    Levels largest = box.low;
    box.open = 0;
    size_t end = box.begin;
    for (size_t at = box.begin; at < box.end; ++at) {
      const uint32_t i = order_[at];
      if (!Fits(i, box.high)) continue;
      if (Fits(i, box.low)) {
        box.sure += weights_[i];
        continue;
      }
      box.open += weights_[i];
      for (size_t k = 0; k < width_; ++k) {
        largest[k] = std::max(largest[k], level_of_[i * width_ + k]);
      }
      std::swap(order_[end++], order_[at]);
    }
    box.end = end;
    box.high = std::move(largest);
  }

  // Requires that `low` fits the memory. Permutes the range of order_, and nothing else of it.
  void Search(Box box) {
    Narrow(box);
    if (!best_.empty() && box.sure + box.open <= best_weight_) return;
    // All that is open can be kept.
    if (box.open == 0 || FitsTheMemory(box.high)) {
      Offer(box.open == 0 ? box.low : box.high, box.sure + box.open);
      return;
    }
    if (looks_ >= kMostLooks || budget_.cancelled()) return;
    // Branch and bound: along the component with the most levels.
    size_t axis = 0;
    for (size_t k = 1; k < width_; ++k) {
      if (box.high[k] - box.low[k] > box.high[axis] - box.low[axis]) axis = k;
    }
    const uint32_t middle = box.low[axis] + (box.high[axis] - box.low[axis]) / 2;
    Box lower = box;
    lower.high[axis] = middle;
    Box upper = std::move(box);
    upper.low[axis] = middle + 1;
    // The half that more is in first: its choices then rule out much of the other.
    if (WeightUpTo(lower) >= lower.sure + lower.open / 2) {
      Search(lower);
      Search(std::move(upper));
    } else {
      Search(upper);
      Search(std::move(lower));
    }
  }
  // Of what fits `high`; of what does not, the weight is at most the rest.
  absl::uint128 WeightUpTo(const Box& box) {
    Look(box);
    absl::uint128 weight = box.sure;
    for (size_t at = box.begin; at < box.end; ++at) {
      if (Fits(order_[at], box.high)) weight += weights_[order_[at]];
    }
    return weight;
  }

  // At what is open in a box, once.
  void Look(const Box& box) {
    looks_ += box.end - box.begin;
    budget_.Pass(box.end - box.begin);
  }

  const DeviceProfile& profile_;
  WorkBudget& budget_;
  const std::vector<absl::uint128> weights_;
  // Components, `graphs` included.
  const size_t width_;
  // By component: the capacities that sizes need, ascending.
  std::vector<std::vector<uint64_t>> levels_;
  // By size and component.
  std::vector<uint32_t> level_of_;
  std::vector<uint64_t> bytes_;
  // A permutation of the sizes' numbers.
  std::vector<uint32_t> order_;
  uint64_t looks_ = 0;
  Levels best_;
  absl::uint128 best_weight_ = 0;
};

absl::uint128 WeightOf(const SizeTuple& tuple, uint64_t count, const DeviceProfile& profile,
                       KeptMost kept) {
  if (kept == KeptMost::kNumGraphs) return count;
  absl::uint128 rows = 0;
  for (size_t k = 0; k < profile.components.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0 || component.relative_cost == 0) continue;
    rows += k < tuple.size() ? tuple[k] : 1;
  }
  return rows * count;
}

}  // namespace

std::optional<ProfileExcess> ExcessOverProfile(absl::Span<const uint32_t> tuple,
                                               const DeviceProfile& profile) {
  for (size_t k = 0; k < tuple.size(); ++k) {
    const ComponentProfile& component = profile.components[k];
    if (component.max_rows == 0) continue;
    const uint64_t largest = LargestCapacity(component);
    if (tuple[k] > largest) return ProfileExcess{k, tuple[k], largest};
  }
  if (!HasMemoryBound(profile)) return std::nullopt;
  const std::vector<uint64_t> capacities = LeastCapacities(tuple, profile);
  if (FitsMemory(profile, capacities)) return std::nullopt;
  return ProfileExcess{
      ProfileExcess::kMemory, BytesOfShape(profile, capacities),
      profile.memory_bytes != 0 ? profile.memory_bytes : profile.measured_bytes->most_bytes};
}

uint64_t BytesToFindOversize(const SizeHistogram& histogram, const DeviceProfile& profile) {
  if (!HasMemoryBound(profile)) return 0;
  constexpr uint64_t kBlock = 32;  // What malloc() adds, at most.
  const uint64_t width = profile.components.size();
  // The tuple, what it needs, its levels, its weight, its bytes, its number twice, its bit.
  const uint64_t each = sizeof(SizeTuple) + kBlock + width * sizeof(uint32_t) +
                        sizeof(std::vector<uint64_t>) + kBlock + width * sizeof(uint64_t) +
                        2 * width * (sizeof(uint64_t) + sizeof(uint32_t)) + sizeof(absl::uint128) +
                        2 * sizeof(uint64_t) + 4 * sizeof(uint32_t) + 1;
  return histogram.num_distinct() * each;
}

absl::StatusOr<LeftOutSizes> FindOversize(const SizeHistogram& histogram,
                                          const DeviceProfile& profile, KeptMost kept,
                                          WorkBudget& budget) {
  LeftOutSizes left_out;
  SizeTuple largest(histogram.num_components(), 0);
  for (const uint32_t row : histogram.SortedRows()) {
    SizeTuple tuple(histogram.tuple(row).begin(), histogram.tuple(row).end());
    if (IsAllowed(LeastCapacities(tuple, profile), profile)) {
      for (size_t k = 0; k < tuple.size(); ++k) largest[k] = std::max(largest[k], tuple[k]);
    } else {
      left_out.alone.push_back(std::move(tuple));
    }
  }
  // Each is within max_rows alone, so all together are; only the memory can be short.
  if (FitsMemory(profile, LeastCapacities(largest, profile))) return left_out;

  std::vector<SizeTuple> fitting;
  fitting.reserve(histogram.num_distinct() - left_out.alone.size());
  for (const uint32_t row : histogram.SortedRows()) {
    SizeTuple tuple(histogram.tuple(row).begin(), histogram.tuple(row).end());
    if (IsAllowed(LeastCapacities(tuple, profile), profile)) fitting.push_back(std::move(tuple));
  }
  std::vector<absl::uint128> weights;
  weights.reserve(fitting.size());
  for (const SizeTuple& tuple : fitting) {
    weights.push_back(WeightOf(tuple, histogram.CountOf(tuple), profile, kept));
  }
  const std::vector<bool> taken = MostThatFits(fitting, std::move(weights), profile, budget).Find();
  if (budget.cancelled()) return budget.Refusal();
  for (size_t i = 0; i < fitting.size(); ++i) {
    if (!taken[i]) left_out.apart.push_back(std::move(fitting[i]));
  }
  return left_out;
}

OversizeGraphs DescribeOversize(const LeftOutSizes& left_out, const SizeHistogram& histogram,
                                const DeviceProfile& profile) {
  OversizeGraphs oversize;
  for (const std::vector<SizeTuple>* const tuples : {&left_out.alone, &left_out.apart}) {
    for (const SizeTuple& tuple : *tuples) {
      const uint64_t count = histogram.CountOf(tuple);
      oversize.num_graphs += count;
      if (tuples == &left_out.apart) oversize.num_apart += count;
      if (oversize.largest.empty() || oversize.largest < tuple) oversize.largest = tuple;
    }
  }
  SizeTuple largest(histogram.num_components());
  for (size_t k = 0; k < largest.size(); ++k) largest[k] = histogram.maximum(k);
  const std::vector<uint64_t> needed = LeastCapacities(largest, profile);
  const uint64_t bytes = BytesOfShape(profile, needed);
  if (profile.memory_bytes != 0 && bytes > profile.memory_bytes) oversize.needed_bytes = bytes;
  for (const uint64_t capacity : WithReserved(profile, needed)) {
    oversize.needed_rows.push_back(capacity == kUnlimited ? 0 : capacity);
  }
  return oversize;
}

}  // namespace packhouse
