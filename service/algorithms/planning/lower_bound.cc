#include "service/algorithms/planning/lower_bound.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/pattern_pricing.h"

namespace packhouse {

std::string LowerBoundName(const LowerBound& bound, const SizeSchema& schema) {
  switch (bound.kind) {
    case LowerBoundKind::kVolume:
      return absl::StrCat("volume of ", schema.name(bound.component));
    case LowerBoundKind::kLiftedVolume:
      return absl::StrCat("lifted volume of ", schema.name(bound.component));
    case LowerBoundKind::kLinearProgram:
      return "linear program";
  }
  return "unknown";
}

LowerBound ComputeVolumeBound(const SizeHistogram& histogram, const Limits& limits) {
  LowerBound bound;
  if (histogram.num_graphs() == 0) return bound;
  bound.packs = 1;
  const size_t l = histogram.num_components();
  for (size_t k = 0; k <= l; ++k) {
    if (!limits.has_limit(k)) continue;
    uint64_t total = histogram.num_graphs();
    uint64_t capacity = limits.capacity(k);
    if (k < l) {
      total = histogram.total(k);
      uint64_t gcd = 0;
      for (size_t row = 0; row < histogram.num_distinct() && gcd != 1; ++row) {
        gcd = std::gcd(gcd, uint64_t{histogram.tuple(row)[k]});
      }
      // gcd 0 means that every size is 0. A gcd above the capacity means that no graph fits, and
      // the caller has excluded that; or a baseline ignores this limit.
      if (gcd != 0) capacity = std::max(capacity - capacity % gcd, gcd);
    }
    const uint64_t packs = total / capacity + (total % capacity != 0);
    // At least one pack is needed. Its bound, too, is attributed to a component with a limit.
    if (packs > bound.packs || !limits.has_limit(bound.component)) {
      bound = {std::max(packs, bound.packs), LowerBoundKind::kVolume, k};
    }
  }
  return bound;
}

namespace {

// Largest tables for the exact search of what fills a room best: rooms, and rooms times items.
constexpr uint64_t kMostRooms = uint64_t{1} << 18;
constexpr uint64_t kMostCells = uint64_t{1} << 27;

// Whether item i takes more than half of component k.
bool IsLarge(const PackingProblem& problem, size_t i, size_t k) {
  return uint64_t{problem.sizes(i)[k]} * 2 > problem.capacity(k);
}

// The most of component k that items that are not large in component j can fill, in the room beside
// one item.
class Filling {
 public:
  Filling(const PackingProblem& problem, size_t k, size_t j, VectorLevel level, WorkBudget& budget)
      : problem_(problem), k_(k) {
    const size_t m = problem.num_components();
    const uint64_t rooms = PatternPricing::NumRooms(problem);
    if (rooms <= kMostRooms && rooms * problem.num_items() <= kMostCells) {
      std::vector<int32_t> values(problem.num_items(), 0);
      for (size_t i = 0; i < values.size(); ++i) {
        if (problem.count(i) == 0 || IsLarge(problem, i, j)) continue;
        values[i] = static_cast<int32_t>(problem.sizes(i)[k]);
      }
      exact_.emplace(problem, level);
      exact_->Solve(values);
      budget.Spend(exact_->LastSteps());
      return;
    }
    // For each other component: the most rows of component k that come with one row of it, as a
    // fraction.
    most_.resize(m);
    for (size_t i = 0; i < problem.num_items(); ++i) {
      if (problem.count(i) == 0 || IsLarge(problem, i, j)) continue;
      const uint32_t rows = problem.sizes(i)[k];
      if (rows == 0) continue;
      for (size_t other = 0; other < m; ++other) {
        const uint32_t others = problem.sizes(i)[other];
        Ratio& most = most_[other];
        if (uint64_t{rows} * most.denominator > uint64_t{most.numerator} * others) {
          most = {rows, others};
        }
      }
    }
    budget.Spend(problem.num_items() * m);
  }

  uint64_t Beside(size_t i) const {
    if (exact_) return static_cast<uint64_t>(exact_->WorthBeside(i));
    uint64_t filled = problem_.capacity(k_) - problem_.sizes(i)[k_];
    for (size_t other = 0; other < most_.size(); ++other) {
      const Ratio& most = most_[other];
      if (most.denominator == 0) continue;  // These rows cost nothing.
      const uint64_t room = problem_.capacity(other) - problem_.sizes(i)[other];
      const absl::uint128 by_ratio = absl::uint128{room} * most.numerator / most.denominator;
      if (by_ratio < filled) filled = static_cast<uint64_t>(by_ratio);
    }
    return filled;
  }

 private:
  struct Ratio {
    uint32_t numerator = 0;
    uint32_t denominator = 1;
  };
  const PackingProblem& problem_;
  const size_t k_;
  std::optional<PatternPricing> exact_;
  std::vector<Ratio> most_;  // [other component]
};

}  // namespace

LowerBound ComputeLiftedVolumeBound(const PackingProblem& problem, VectorLevel level,
                                    WorkBudget& budget) {
  LowerBound bound;
  bound.kind = LowerBoundKind::kLiftedVolume;
  const size_t m = problem.num_components();
  for (size_t k = 0; k < m; ++k) {
    for (size_t j = 0; j < m; ++j) {
      const Filling filling(problem, k, j, level, budget);
      if (budget.remaining() == 0) return {};
      absl::uint128 volume = problem.total(k);
      for (size_t i = 0; i < problem.num_items(); ++i) {
        if (problem.count(i) == 0 || !IsLarge(problem, i, j)) continue;
        const uint64_t unused = problem.capacity(k) - problem.sizes(i)[k] - filling.Beside(i);
        volume += absl::uint128{unused} * problem.count(i);
      }
      const uint64_t capacity = problem.capacity(k);
      const auto packs = static_cast<uint64_t>((volume + capacity - 1) / capacity);
      if (packs > bound.packs) bound = {packs, LowerBoundKind::kLiftedVolume, problem.original(k)};
    }
  }
  return bound;
}

}  // namespace packhouse
