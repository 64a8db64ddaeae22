#include "service/algorithms/planning/supply_bound.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/numeric/int128.h"

namespace packhouse {
namespace {

// The heavier weight. The product of a size and a weight fits 64 bits.
constexpr uint32_t kHeavyWeight = uint32_t{1} << 20;
// How much more the first component weighs than the second, if each capacity weighs the same: from
// kLeastRatio by steps of half a doubling, and around the best by an eighth of such a step.
constexpr double kLeastRatio = 1.0 / (1 << 14);
constexpr int kSteps = 57;
constexpr double kStep = 1.4142135623730951;
constexpr int kFinerSteps = 16;
constexpr double kFinerStep = 1.0442737824274138;
// Two components take at most this part of the budget that is left: one in so many.
constexpr uint64_t kMostShare = 8;

struct Weights {
  uint64_t first;
  uint64_t second;
};

// Two components of the graphs of a problem: those that leave no room for another of their kind in
// `second`, and the others.
class TwoComponents {
 public:
  TwoComponents(const PackingProblem& problem, size_t first, size_t second)
      : problem_(problem), first_(first), second_(second) {
    for (size_t i = 0; i < problem.num_items(); ++i) {
      if (problem.count(i) != 0) (IsLarge(i) ? large_ : small_).push_back(i);
    }
  }

  bool HasLarge() const { return !large_.empty(); }

  // `by_capacity`: how much more the first component weighs, for a whole pack.
  Weights WeightsFor(double by_capacity) const {
    const double ratio = by_capacity * static_cast<double>(problem_.capacity(second_)) /
                         static_cast<double>(problem_.capacity(first_));
    const auto lighter = [](double share) {
      return std::max<uint64_t>(1, static_cast<uint64_t>(share * kHeavyWeight));
    };
    if (ratio < 1) return {lighter(ratio), kHeavyWeight};
    return {kHeavyWeight, lighter(1 / ratio)};
  }

  // The bound before it is rounded up.
  double About(const Weights& weights) const {
    const auto first = static_cast<double>(weights.first);
    const auto second = static_cast<double>(weights.second);
    const double capacity = std::min(first * static_cast<double>(problem_.capacity(first_)),
                                     second * static_cast<double>(problem_.capacity(second_)));
    double sum = 0;
    for (const size_t i : small_) {
      const auto sizes = problem_.sizes(i);
      sum += static_cast<double>(problem_.count(i)) *
             std::min(first * sizes[first_], second * sizes[second_]);
    }
    for (const size_t i : large_) {
      const double beside = std::min(first * static_cast<double>(RoomBeside(i, first_)),
                                     second * static_cast<double>(RoomBeside(i, second_)));
      sum += static_cast<double>(problem_.count(i)) * (capacity - beside);
    }
    return sum / capacity;
  }

  uint64_t Packs(const Weights& weights) const {
    const absl::uint128 capacity =
        Least(weights, problem_.capacity(first_), problem_.capacity(second_));
    absl::uint128 sum = 0;
    for (const size_t i : small_) {
      const auto sizes = problem_.sizes(i);
      sum += Least(weights, sizes[first_], sizes[second_]) * problem_.count(i);
    }
    for (const size_t i : large_) {
      sum += (capacity - Least(weights, RoomBeside(i, first_), RoomBeside(i, second_))) *
             problem_.count(i);
    }
    return static_cast<uint64_t>((sum + capacity - 1) / capacity);
  }

  // The component that fills a pack first.
  size_t Scarcer(const Weights& weights) const {
    return absl::uint128{weights.first} * problem_.capacity(first_) <=
                   absl::uint128{weights.second} * problem_.capacity(second_)
               ? first_
               : second_;
  }

 private:
  bool IsLarge(size_t i) const {
    return uint64_t{problem_.sizes(i)[second_]} * 2 > problem_.capacity(second_);
  }
  uint64_t RoomBeside(size_t i, size_t k) const {
    return problem_.capacity(k) - problem_.sizes(i)[k];
  }
  static absl::uint128 Least(const Weights& weights, uint64_t first, uint64_t second) {
    return std::min(absl::uint128{weights.first} * first, absl::uint128{weights.second} * second);
  }

  const PackingProblem& problem_;
  const size_t first_;
  const size_t second_;
  std::vector<size_t> large_;
  std::vector<size_t> small_;
};

double BestRatio(const TwoComponents& both) {
  double best = 1;
  double most = 0;
  const auto try_steps = [&](double ratio, int steps, double step) {
    for (int i = 0; i < steps; ++i, ratio *= step) {
      const double packs = both.About(both.WeightsFor(ratio));
      if (packs <= most) continue;
      most = packs;
      best = ratio;
    }
  };
  try_steps(kLeastRatio, kSteps, kStep);
  try_steps(best / kStep, kFinerSteps, kFinerStep);
  return best;
}

}  // namespace

LowerBound ComputeSupplyBound(const PackingProblem& problem, WorkBudget& budget) {
  constexpr uint64_t kTries = kSteps + kFinerSteps + 1;
  LowerBound bound;
  bound.kind = LowerBoundKind::kLiftedVolume;
  const size_t m = problem.num_components();
  for (size_t first = 0; first < m; ++first) {
    for (size_t second = 0; second < m; ++second) {
      if (first == second) continue;
      const TwoComponents both(problem, first, second);
      if (!both.HasLarge()) continue;
      // A bound is worth a part of the steps, not those that plans are made with.
      const uint64_t steps = problem.num_items() * kTries;
      if (steps > budget.remaining() / kMostShare) continue;
      if (!budget.Spend(steps)) return bound;
      const Weights weights = both.WeightsFor(BestRatio(both));
      const uint64_t packs = both.Packs(weights);
      if (packs > bound.packs) {
        bound.packs = packs;
        bound.component = problem.original(both.Scarcer(weights));
      }
    }
  }
  return bound;
}

}  // namespace packhouse
