#include "service/algorithms/planning/optimizer/lopsided_rooms.h"

#include <algorithm>

#include "absl/numeric/int128.h"

namespace packhouse {
namespace {

// How much shorter the short component must be than the heaviest.
constexpr double kShort = 1.1;
// Items that are looked at, the nearest in shape first.
constexpr int kMostLooks = 256;
constexpr uint64_t kStepsOfLook = 4;
constexpr uint64_t kItemsPerStep = 8;  // That are not left.
constexpr uint64_t kStepsOfSort = 100;

}  // namespace

LopsidedRooms::LopsidedRooms(const PackingProblem& problem)
    : problem_(problem), mean_(problem.num_components()), by_shape_(problem.num_components()) {}

void LopsidedRooms::Learn(absl::Span<const uint64_t> left, WorkBudget& budget) {
  const size_t m = problem_.num_components();
  left_.assign(left.begin(), left.end());
  std::vector<double> totals(m);
  mean_.assign(m, 0);
  double graphs = 0;
  uint64_t steps = left.size() / kItemsPerStep;
  for (uint32_t item = 0; item < left.size(); ++item) {
    if (left[item] == 0) continue;
    steps += m;
    const auto count = static_cast<double>(left[item]);
    const bool is_large = IsLarge(item);
    // Means are those of items that fill packs up.
    if (!is_large) graphs += count;
    for (size_t k = 0; k < m; ++k) {
      const double rows = count * problem_.sizes(item)[k];
      totals[k] += rows;
      if (!is_large) mean_[k] += rows;
    }
  }
  heaviest_ = 0;
  for (size_t k = 0; k < m; ++k) {
    mean_[k] /= std::max(graphs, 1.0);
    totals[k] /= static_cast<double>(problem_.capacity(k));
    if (totals[k] > totals[heaviest_]) heaviest_ = k;
    by_shape_[k].clear();
  }
  budget.Spend(steps);
}

bool LopsidedRooms::Fits(uint32_t item, absl::Span<const uint64_t> room) const {
  const auto sizes = problem_.sizes(item);
  for (size_t k = 0; k < room.size(); ++k) {
    if (sizes[k] > room[k]) return false;
  }
  return true;
}

double LopsidedRooms::Times(absl::Span<const uint64_t> room, size_t k) const {
  return mean_[k] > 0 ? static_cast<double>(room[k]) / mean_[k] : 1e18;
}

const std::vector<uint32_t>& LopsidedRooms::ByShape(size_t k, WorkBudget& budget) {
  std::vector<uint32_t>& items = by_shape_[k];
  if (!items.empty()) return items;
  // All that a list can ever need, so that it does not grow by doubling.
  items.reserve(left_.size());
  for (uint32_t item = 0; item < left_.size(); ++item) {
    if (left_[item] != 0 && problem_.sizes(item)[heaviest_] != 0) items.push_back(item);
  }
  std::sort(items.begin(), items.end(), [&](uint32_t a, uint32_t b) {
    const uint64_t of_a = uint64_t{problem_.sizes(a)[k]} * problem_.sizes(b)[heaviest_];
    const uint64_t of_b = uint64_t{problem_.sizes(b)[k]} * problem_.sizes(a)[heaviest_];
    return of_a != of_b ? of_a < of_b : a < b;
  });
  budget.Spend(items.size() * kStepsOfSort);
  return items;
}

std::optional<uint32_t> LopsidedRooms::Companion(absl::Span<const uint64_t> room,
                                                 absl::FunctionRef<bool(uint32_t)> is_left,
                                                 WorkBudget& budget) {
  if (room.empty() || mean_[heaviest_] == 0) return std::nullopt;
  size_t shortest = heaviest_;
  for (size_t k = 0; k < room.size(); ++k) {
    if (Times(room, k) < Times(room, shortest)) shortest = k;
  }
  const double times = Times(room, heaviest_);
  if (times < 1 || Times(room, shortest) * kShort > times) return std::nullopt;
  const std::vector<uint32_t>& items = ByShape(shortest, budget);
  size_t above = static_cast<size_t>(
      std::partition_point(items.begin(), items.end(),
                           [&](uint32_t item) {
                             const auto sizes = problem_.sizes(item);
                             return absl::uint128{sizes[shortest]} * room[heaviest_] <
                                    absl::uint128{sizes[heaviest_]} * room[shortest];
                           }) -
      items.begin());
  size_t below = above;
  // From both sides of the room's own shape.
  for (int looks = 0; looks < kMostLooks; looks += 2) {
    budget.Spend(2 * kStepsOfLook);
    if (below != 0) {
      const uint32_t item = items[--below];
      if (is_left(item) && Fits(item, room)) return item;
    }
    if (above != items.size()) {
      const uint32_t item = items[above++];
      if (is_left(item) && Fits(item, room)) return item;
    }
    if (below == 0 && above == items.size()) break;
  }
  return std::nullopt;
}

}  // namespace packhouse
