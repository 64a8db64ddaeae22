#include "service/algorithms/planning/tuning/shape_picker.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "service/algorithms/planning/limits.h"

namespace packhouse {
namespace {

// Thresholds that are single sizes.
constexpr size_t kSingleThresholds = 12;
// Thresholds per factor of two in hardness beyond those, in bits.
constexpr int kThresholdBits = 2;
// A threshold's shapes are balanced for 1 / kSizes, 2 / kSizes, ... of the most packs.
constexpr uint64_t kSizes = 16;
constexpr size_t kMostAdditions = 8;

double RoundUp(double packs) {
  // Larger doubles are whole numbers. A difference of 10^-9 comes from rounding.
  if (packs >= 4e15) return packs;
  const auto whole = static_cast<double>(static_cast<uint64_t>(packs));
  return packs - whole > packs * 1e-9 ? whole + 1 : std::max(whole, 0.0);
}

double Distance(double a, double b) { return a < b ? b - a : a - b; }

}  // namespace

ShapePicker::ShapePicker(const SizeHistogram& histogram, const DeviceProfile& profile,
                         WorkBudget& budget)
    : histogram_(histogram), profile_(profile), budget_(budget), demand_(DemandOf(histogram)) {
  SortByHardness();
  ListOptions();
}

double ShapePicker::CostOfRows() const {
  double cost = 0;
  for (size_t k = 0; k < profile_.components.size(); ++k) {
    const ComponentProfile& component = profile_.components[k];
    if (component.max_rows == 0) continue;
    cost += component.relative_cost * static_cast<double>(demand_.totals[k]);
  }
  return cost;
}

ShapeSet ShapePicker::BestSingle() const {
  ShapeSet best;
  double least = 0;
  for (size_t option = 0; option < options_.size() && options_[option].first == 0; ++option) {
    const double cost = CostOf({option});
    if (best.empty() || cost < least) {
      best = {option};
      least = cost;
    }
  }
  return best;
}

ShapeSet ShapePicker::Extend(const ShapeSet& set) {
  ShapeSet best;
  double least = CostOf(set);
  for (size_t option = 0; option < options_.size(); ++option) {
    Try(With(set, option), best, least);
  }
  for (bool better = !best.empty(); better;) {
    better = false;
    for (size_t i = 0; i < best.size(); ++i) {
      const ShapeSet rest = Without(best, i);
      for (size_t option = 0; option < options_.size(); ++option) {
        better |= Try(With(rest, option), best, least);
      }
    }
  }
  return best;
}

std::vector<ShapeSet> ShapePicker::Additions(const ShapeSet& set) const {
  std::map<uint64_t, std::pair<double, ShapeSet>> best;
  for (size_t option = 0; option < options_.size(); ++option) {
    ShapeSet larger = With(set, option);
    if (!IsNested(larger)) continue;
    const double cost = CostOf(larger);
    // The exponent without its last bit: factors of four.
    const uint64_t magnitude = std::bit_cast<uint64_t>(options_[option].cost) >> 53;
    const auto [place, is_new] = best.try_emplace(magnitude, cost, larger);
    if (!is_new && cost < place->second.first) place->second = {cost, std::move(larger)};
  }
  std::vector<std::pair<double, ShapeSet>> additions;
  additions.reserve(best.size());
  for (auto& [magnitude, addition] : best) additions.push_back(std::move(addition));
  std::sort(additions.begin(), additions.end());
  if (additions.size() > kMostAdditions) additions.resize(kMostAdditions);
  std::vector<ShapeSet> sets;
  sets.reserve(additions.size());
  for (auto& [cost, larger] : additions) sets.push_back(std::move(larger));
  return sets;
}

std::vector<ShapeSet> ShapePicker::Neighbours(const ShapeSet& set) const {
  std::vector<ShapeSet> neighbours;
  for (size_t i = 0; i < set.size(); ++i) {
    const ShapeSet rest = Without(set, i);
    for (const size_t option : NextTo(set[i])) {
      ShapeSet neighbour = With(rest, option);
      if (IsNested(neighbour)) neighbours.push_back(std::move(neighbour));
    }
  }
  return neighbours;
}

void ShapePicker::SortByHardness() {
  // Hardness: the largest share that a graph has of what all graphs have of a component.
  const size_t l = histogram_.num_components();
  std::vector<double> hardness(histogram_.num_distinct(), 0);
  for (size_t row = 0; row < histogram_.num_distinct(); ++row) {
    for (size_t k = 0; k < l; ++k) {
      if (profile_.components[k].max_rows == 0 || demand_.totals[k] == 0) continue;
      hardness[row] = std::max(hardness[row], static_cast<double>(histogram_.tuple(row)[k]) /
                                                  static_cast<double>(demand_.totals[k]));
    }
  }
  std::vector<uint32_t> rows = histogram_.SortedRows();
  std::stable_sort(rows.begin(), rows.end(),
                   [&](uint32_t a, uint32_t b) { return hardness[a] > hardness[b]; });
  // Of all sizes from the i-th on, so that those of a class are a difference.
  const size_t n = rows.size();
  totals_.assign((n + 1) * (l + 1), 0);
  largest_.assign((n + 1) * (l + 1), 0);
  for (size_t i = n; i-- != 0;) {
    const auto tuple = histogram_.tuple(rows[i]);
    const uint64_t count = histogram_.count(rows[i]);
    for (size_t k = 0; k <= l; ++k) {
      const uint64_t size = k < l ? tuple[k] : 1;
      const size_t at = i * (l + 1) + k;
      totals_[at] = totals_[at + l + 1] + static_cast<double>(size) * static_cast<double>(count);
      largest_[at] = std::max(largest_[at + l + 1], size);
    }
  }
  // A threshold before each of the hardest sizes, and then before each bucket of hardness.
  uint64_t bucket = UINT64_MAX;
  double last = -1;
  for (size_t i = 0; i < n; ++i) {
    const double h = hardness[rows[i]];
    const uint64_t b = std::bit_cast<uint64_t>(h) >> (52 - kThresholdBits);
    if (h != last && (thresholds_.size() < kSingleThresholds || b != bucket)) {
      thresholds_.push_back(i);
      bucket = b;
    }
    last = h;
  }
}

void ShapePicker::ListOptions() {
  const size_t l = histogram_.num_components();
  std::vector<double> weights;
  for (size_t k = 0; k <= l; ++k) weights.push_back(profile_.components[k].relative_cost);
  for (const size_t first : thresholds_) {
    GraphDemand demand = demand_;
    for (size_t k = 0; k <= l; ++k) {
      // At least some rows of each component, for graphs that fill up packs.
      demand.largest[k] = std::max(largest_[first * (l + 1) + k], demand.divisors[k]);
    }
    const CandidateGrid grid(std::move(demand), profile_, weights,
                             {profile_.fixed_cost, profile_.least_cost});
    GridPositions last;
    for (uint64_t size = kSizes; size != 0; --size) {
      // Without overflow.
      const uint64_t packs =
          grid.most_packs() / kSizes * size + grid.most_packs() % kSizes * size / kSizes;
      if (packs == 0 || !budget_.Spend(100)) break;
      const std::optional<GridPositions> positions = grid.Balanced(packs);
      if (!positions) break;
      if (*positions == last) continue;
      last = *positions;
      ShapeOption option;
      option.first = first;
      option.capacities = grid.At(*positions).capacities;
      option.cost = CostOfShape(profile_, option.capacities);
      options_.push_back(std::move(option));
    }
  }
}

ShapeSet ShapePicker::With(ShapeSet set, size_t option) {
  set.push_back(option);
  std::sort(set.begin(), set.end());
  return set;
}

ShapeSet ShapePicker::Without(ShapeSet set, size_t i) {
  set.erase(set.begin() + static_cast<std::ptrdiff_t>(i));
  return set;
}

bool ShapePicker::IsNested(const ShapeSet& set) const {
  if (set.empty() || options_[set.front()].first != 0) return false;
  for (size_t i = 1; i < set.size(); ++i) {
    const ShapeOption& larger = options_[set[i - 1]];
    const ShapeOption& smaller = options_[set[i]];
    if (larger.first >= smaller.first || larger.cost <= smaller.cost) return false;
    for (size_t k = 0; k < profile_.components.size(); ++k) {
      if (profile_.components[k].relative_cost > 0 &&
          larger.capacities[k] < smaller.capacities[k]) {
        return false;
      }
    }
  }
  return true;
}

// An estimate by volume: each shape has the packs that its class of sizes needs, the largest first;
// what these leave free takes smaller classes, of which then less is left.
double ShapePicker::CostOf(const ShapeSet& set) const {
  const size_t m = profile_.components.size();
  std::vector<double> share_left(set.size(), 1);
  std::vector<double> room(m);
  double cost = 0;
  for (size_t i = 0; i < set.size(); ++i) {
    const ShapeOption& shape = options_[set[i]];
    double packs = 0;
    for (size_t k = 0; k < m; ++k) {
      if (shape.capacities[k] == kUnlimited) continue;
      packs = std::max(
          packs, share_left[i] * TotalOf(set, i, k) / static_cast<double>(shape.capacities[k]));
    }
    packs = RoundUp(packs);
    cost += packs * shape.cost;
    for (size_t k = 0; k < m; ++k) {
      if (shape.capacities[k] == kUnlimited) continue;
      room[k] =
          packs * static_cast<double>(shape.capacities[k]) - share_left[i] * TotalOf(set, i, k);
    }
    for (size_t j = i + 1; j < set.size(); ++j) {
      double share = share_left[j];
      for (size_t k = 0; k < m; ++k) {
        if (shape.capacities[k] == kUnlimited) continue;
        const double total = TotalOf(set, j, k);
        if (total > 0 && total * share > room[k]) share = std::max(0.0, room[k] / total);
      }
      share_left[j] -= share;
      for (size_t k = 0; k < m; ++k) room[k] -= share * TotalOf(set, j, k);
    }
  }
  return cost;
}

double ShapePicker::TotalOf(const ShapeSet& set, size_t i, size_t k) const {
  const size_t m = profile_.components.size();
  const double total = totals_[options_[set[i]].first * m + k];
  return i + 1 == set.size() ? total : total - totals_[options_[set[i + 1]].first * m + k];
}

bool ShapePicker::Try(ShapeSet set, ShapeSet& best, double& least) {
  if (!IsNested(set) || !budget_.Spend(50 * set.size() * set.size())) return false;
  const double cost = CostOf(set);
  if (cost >= least) return false;
  best = std::move(set);
  least = cost;
  return true;
}

std::vector<size_t> ShapePicker::NextTo(size_t option) const {
  std::vector<size_t> next;
  const size_t first = options_[option].first;
  if (option + 1 < options_.size() && options_[option + 1].first == first) {
    next.push_back(option + 1);
  }
  if (option != 0 && options_[option - 1].first == first) next.push_back(option - 1);
  // The closest in cost of the next threshold on either side.
  for (const bool harder : {true, false}) {
    std::optional<size_t> closest;
    for (size_t i = 0; i < options_.size(); ++i) {
      const size_t other = options_[i].first;
      if (harder ? other >= first : other <= first) continue;
      const size_t closest_first = closest ? options_[*closest].first : other;
      if (closest && other == closest_first) {
        const double cost = options_[option].cost;
        if (Distance(options_[i].cost, cost) < Distance(options_[*closest].cost, cost)) closest = i;
      } else if (!closest || (harder ? other > closest_first : other < closest_first)) {
        closest = i;
      }
    }
    if (closest) next.push_back(*closest);
  }
  return next;
}

}  // namespace packhouse
