#include "service/planning/shape_sets.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "service/planning/budgeted_plan.h"
#include "service/planning/candidate_grid.h"
#include "service/planning/limits.h"
#include "service/sizes/status_macros.h"

namespace packhouse {
namespace {

// Sets that are planned again, and with how many times the steps.
constexpr size_t kSecondRound = 8;
constexpr uint64_t kSecondSteps = 4;
// A shape more is to be compiled; it should save as much.
constexpr double kLeastGain = 1e-3;
// Numbers of shapes without such a gain after which no more are tried.
constexpr int kFruitlessSizes = 2;

bool Takes(absl::Span<const uint64_t> capacities, absl::Span<const uint32_t> tuple) {
  for (size_t k = 0; k < tuple.size(); ++k) {
    if (tuple[k] > capacities[k]) return false;
  }
  return true;
}

// Fills packs one after the other with what is left of some items, the hardest first.
class RoomFiller {
 public:
  // `left`: graphs of each tuple of `plan`; those that are used are taken away.
  RoomFiller(const PackingPlan& plan, absl::Span<const uint64_t> capacities,
             std::vector<uint64_t>& left, WorkBudget& budget)
      : plan_(plan), capacities_(capacities), left_(left), budget_(budget) {
    std::vector<double> share(plan.num_tuples(), 0);
    for (uint32_t tuple = 0; tuple < plan.num_tuples(); ++tuple) {
      if (left[tuple] == 0) continue;
      order_.push_back(tuple);
      for (size_t k = 0; k < plan.num_components; ++k) {
        share[tuple] = std::max(share[tuple], ShareOf(plan.tuple(tuple)[k], k));
      }
    }
    std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
      return share[a] != share[b] ? share[a] > share[b] : a > b;
    });
    for (const uint32_t tuple : order_) shares_.push_back(share[tuple]);
    smallest_.assign(order_.size() * plan.num_components, UINT32_MAX);
    for (size_t i = order_.size(); i-- != 0;) {
      for (size_t k = 0; k < plan.num_components; ++k) {
        uint32_t smallest = plan.tuple(order_[i])[k];
        if (i + 1 != order_.size()) smallest = std::min(smallest, Smallest(i + 1, k));
        smallest_[i * plan.num_components + k] = smallest;
      }
    }
  }

  // Appends the packs of `pattern`, filled up, to `filled`.
  void Fill(Pattern pattern, std::vector<Pattern>& filled) {
    while (pattern.repeats != 0) {
      Pattern next = pattern;
      AddTo(next);
      pattern.repeats -= next.repeats;
      for (size_t i = pattern.entries.size(); i < next.entries.size(); ++i) {
        const auto [tuple, copies] = next.entries[i];
        left_[tuple] -= copies * next.repeats;
      }
      std::sort(next.entries.begin(), next.entries.end(),
                [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
      filled.push_back(std::move(next));
    }
  }

 private:
  double ShareOf(uint64_t rows, size_t k) const {
    return static_cast<double>(rows) / static_cast<double>(capacities_[k]);
  }
  uint32_t Smallest(size_t i, size_t k) const { return smallest_[i * plan_.num_components + k]; }

  // Adds the same graphs to as many of the pattern's packs as there are graphs for.
  void AddTo(Pattern& pattern) {
    const size_t l = plan_.num_components;
    std::vector<uint64_t> room(capacities_.begin(), capacities_.end());
    for (const auto& [tuple, copies] : pattern.entries) {
      for (size_t k = 0; k < l; ++k) room[k] -= uint64_t{plan_.tuple(tuple)[k]} * copies;
      room[l] -= copies;
    }
    double most_share = 0;
    for (size_t k = 0; k < l; ++k) most_share = std::max(most_share, ShareOf(room[k], k));
    auto i = static_cast<size_t>(
        std::lower_bound(shares_.begin(), shares_.end(), most_share, std::greater<>()) -
        shares_.begin());
    for (; i < order_.size() && room[l] != 0; ++i) {
      // Packs that stay as they are lose nothing but room.
      if (!budget_.Spend(l + 1)) return;
      const uint32_t tuple = order_[i];
      const auto sizes = plan_.tuple(tuple);
      uint64_t copies = std::min<uint64_t>({left_[tuple], room[l], UINT32_MAX});
      for (size_t k = 0; k < l; ++k) {
        if (Smallest(i, k) > room[k]) return;
        if (sizes[k] != 0) copies = std::min(copies, room[k] / sizes[k]);
      }
      if (copies == 0) continue;
      for (size_t k = 0; k < l; ++k) room[k] -= sizes[k] * copies;
      room[l] -= copies;
      pattern.repeats = std::min(pattern.repeats, left_[tuple] / copies);
      pattern.entries.push_back({tuple, static_cast<uint32_t>(copies)});
    }
  }

  const PackingPlan& plan_;
  const absl::Span<const uint64_t> capacities_;
  std::vector<uint64_t>& left_;
  WorkBudget& budget_;
  // What is left at first, hardest first; its largest share of a capacity; and the smallest size of
  // each component from there on.
  std::vector<uint32_t> order_;
  std::vector<double> shares_;
  std::vector<uint32_t> smallest_;
};

bool PatternFits(const PackingPlan& plan, const Pattern& pattern,
                 absl::Span<const uint64_t> capacities) {
  std::vector<uint64_t> rows(capacities.size(), 0);
  for (const auto& [tuple, copies] : pattern.entries) {
    for (size_t k = 0; k < plan.num_components; ++k) {
      rows[k] += uint64_t{plan.tuple(tuple)[k]} * copies;
    }
    rows.back() += copies;
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    if (rows[k] > capacities[k]) return false;
  }
  return true;
}

// Each pack to the last shape that takes it.
void MoveToLastShapes(std::vector<ShapePacks>& shapes) {
  for (size_t s = 0; s + 1 < shapes.size(); ++s) {
    std::vector<Pattern> stay;
    for (Pattern& pattern : shapes[s].plan.patterns) {
      size_t last = shapes.size() - 1;
      while (last != s && !PatternFits(shapes[s].plan, pattern, shapes[last].capacities)) --last;
      (last == s ? stay : shapes[last].plan.patterns).push_back(std::move(pattern));
    }
    shapes[s].plan.patterns = std::move(stay);
  }
}

// Fills in the graphs of each shape. Every graph must be in one pack, and every pack within its
// shape.
absl::Status CountGraphs(const SizeHistogram& histogram, std::vector<ShapePacks>& shapes) {
  SizeHistogram sum(histogram.num_components());
  for (ShapePacks& shape : shapes) {
    for (const Pattern& pattern : shape.plan.patterns) {
      for (const auto& [tuple, copies] : pattern.entries) {
        PH_RETURN_IF_ERROR(shape.graphs.Add(shape.plan.tuple(tuple), copies * pattern.repeats));
      }
    }
    PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(shape.capacities));
    PH_RETURN_IF_ERROR(VerifyPlan(shape.plan, shape.graphs, limits));
    PH_RETURN_IF_ERROR(sum.Merge(shape.graphs));
  }
  if (sum == histogram) return absl::OkStatus();
  return absl::InternalError("tune: the packs of all shapes do not hold the histogram's graphs");
}

// A shape that may be one of several: the graphs from number `first` on fit, hardest first.
struct ShapeOption {
  size_t first = 0;
  uint64_t packs = 0;  // What it is balanced for.
  std::vector<uint64_t> capacities;
  double cost = 0;
};

// Picks shapes as if graphs could be cut.
class ShapePicker {
 public:
  ShapePicker(const SizeHistogram& histogram, const DeviceProfile& profile, WorkBudget& budget)
      : histogram_(histogram), profile_(profile), budget_(budget), demand_(DemandOf(histogram)) {
    SortByHardness();
    ListOptions();
  }

  const ShapeOption& option(size_t i) const { return options_[i]; }

  // Of all graphs, without padding.
  double CostOfRows() const {
    double cost = 0;
    for (size_t k = 0; k < profile_.components.size(); ++k) {
      const ComponentProfile& component = profile_.components[k];
      if (component.max_rows == 0) continue;
      cost += component.relative_cost * static_cast<double>(demand_.totals[k]);
    }
    return cost;
  }

  // The best set of `num_shapes` that can be reached from `set` by adding one shape and exchanging
  // one at a time. Empty if no set of so many is better than all smaller ones.
  std::vector<size_t> Extend(const std::vector<size_t>& set) {
    std::vector<size_t> best;
    double least = CostOf(set);
    for (size_t option = 0; option < options_.size(); ++option) {
      Try(With(set, option), best, least);
    }
    for (bool better = !best.empty(); better;) {
      better = false;
      for (size_t i = 0; i < best.size(); ++i) {
        std::vector<size_t> rest = best;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
        for (size_t option = 0; option < options_.size(); ++option) {
          better |= Try(With(rest, option), best, least);
        }
      }
    }
    return best;
  }

  // The best single shape.
  std::vector<size_t> Single() {
    std::vector<size_t> best;
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

  // Sets in which one shape is exchanged for one of the next larger or smaller thresholds, or of
  // the next larger or smaller sizes.
  std::vector<std::vector<size_t>> Neighbours(const std::vector<size_t>& set) const {
    std::vector<std::vector<size_t>> neighbours;
    for (size_t i = 0; i < set.size(); ++i) {
      std::vector<size_t> rest = set;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      for (const size_t option : NextTo(set[i])) {
        std::vector<size_t> neighbour = With(rest, option);
        if (Nested(neighbour)) neighbours.push_back(std::move(neighbour));
      }
    }
    return neighbours;
  }

  // The set with one shape more: the best of each order of magnitude of its cost, for volumes say
  // little about what size is easy to pack.
  std::vector<std::vector<size_t>> Additions(const std::vector<size_t>& set) const {
    std::map<uint64_t, std::pair<double, std::vector<size_t>>> best;
    for (size_t option = 0; option < options_.size(); ++option) {
      std::vector<size_t> larger = With(set, option);
      if (!Nested(larger)) continue;
      const double cost = CostOf(larger);
      // All but the exponent's last bit: factors of four.
      const uint64_t magnitude = std::bit_cast<uint64_t>(options_[option].cost) >> 53;
      const auto [place, is_new] = best.try_emplace(magnitude, cost, larger);
      if (!is_new && cost < place->second.first) place->second = {cost, std::move(larger)};
    }
    std::vector<std::pair<double, std::vector<size_t>>> additions;
    additions.reserve(best.size());
    for (auto& [magnitude, addition] : best) additions.push_back(std::move(addition));
    std::sort(additions.begin(), additions.end());
    if (additions.size() > kAdditions) additions.resize(kAdditions);
    std::vector<std::vector<size_t>> sets;
    sets.reserve(additions.size());
    for (auto& [cost, larger] : additions) sets.push_back(std::move(larger));
    return sets;
  }

 private:
  static constexpr size_t kSingleThresholds = 12;
  // Thresholds per factor of two in hardness, in bits.
  static constexpr int kThresholdBits = 2;
  // Sizes of a shape: balanced for this many 1 / kSizes of the packs.
  static constexpr uint64_t kSizes = 16;
  static constexpr size_t kAdditions = 8;

  // By the size of the balanced shape that takes a graph.
  void SortByHardness() {
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

  void ListOptions() {
    const size_t l = histogram_.num_components();
    std::vector<double> weights;
    for (size_t k = 0; k <= l; ++k) weights.push_back(profile_.components[k].relative_cost);
    for (const size_t first : thresholds_) {
      Demand demand = demand_;
      for (size_t k = 0; k <= l; ++k) {
        // Some rows of each component, for the graphs that fill up packs.
        demand.largest[k] = std::max(largest_[first * (l + 1) + k], demand.divisors[k]);
      }
      const CandidateGrid grid(std::move(demand), profile_, weights);
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
        option.packs = packs;
        option.capacities = grid.At(*positions).capacities;
        option.cost = CostOfShape(profile_, option.capacities);
        options_.push_back(std::move(option));
      }
    }
  }

  std::vector<size_t> With(std::vector<size_t> set, size_t option) const {
    set.push_back(option);
    std::sort(set.begin(), set.end());
    return set;
  }

  // Each shape takes more graphs than the next and is larger where size costs.
  bool Nested(const std::vector<size_t>& set) const {
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

  bool Try(std::vector<size_t> set, std::vector<size_t>& best, double& least) {
    if (!Nested(set) || !budget_.Spend(50 * set.size() * set.size())) return false;
    const double cost = CostOf(set);
    if (cost >= least) return false;
    best = std::move(set);
    least = cost;
    return true;
  }

  // The cost of an epoch if graphs could be cut and mixed at will.
  double CostOf(const std::vector<size_t>& set) const {
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
          if (total * share > room[k]) share = std::max(0.0, room[k] / total);
        }
        share_left[j] -= share;
        for (size_t k = 0; k < m; ++k) room[k] -= share * TotalOf(set, j, k);
      }
    }
    return cost;
  }

  // Of the graphs that fit shape i of the set but not the next.
  double TotalOf(const std::vector<size_t>& set, size_t i, size_t k) const {
    const size_t m = profile_.components.size();
    const double total = totals_[options_[set[i]].first * m + k];
    return i + 1 == set.size() ? total : total - totals_[options_[set[i + 1]].first * m + k];
  }

  static double RoundUp(double packs) {
    // Beyond that every double is whole. A part in 10^9 comes from rounding.
    if (packs >= 4e15) return packs;
    const auto whole = static_cast<double>(static_cast<uint64_t>(packs));
    return packs - whole > packs * 1e-9 ? whole + 1 : std::max(whole, 0.0);
  }

  std::vector<size_t> NextTo(size_t option) const {
    std::vector<size_t> next;
    const size_t first = options_[option].first;
    if (option + 1 < options_.size() && options_[option + 1].first == first) {
      next.push_back(option + 1);
    }
    if (option != 0 && options_[option - 1].first == first) next.push_back(option - 1);
    // The closest in cost with another threshold.
    for (const bool harder : {true, false}) {
      std::optional<size_t> closest;
      for (size_t i = 0; i < options_.size(); ++i) {
        if (harder ? options_[i].first >= first : options_[i].first <= first) continue;
        if (!closest || Between(options_[i].first, options_[*closest].first, first) ||
            (options_[i].first == options_[*closest].first &&
             Distance(i, option) < Distance(*closest, option))) {
          closest = i;
        }
      }
      if (closest) next.push_back(*closest);
    }
    return next;
  }
  static bool Between(size_t a, size_t b, size_t first) { return a < first ? a > b : a < b; }
  double Distance(size_t a, size_t b) const {
    const double difference = options_[a].cost - options_[b].cost;
    return difference < 0 ? -difference : difference;
  }

  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  WorkBudget& budget_;
  const Demand demand_;
  // Of the graphs from each number on, l + 1 entries each.
  std::vector<double> totals_;
  std::vector<uint64_t> largest_;
  std::vector<size_t> thresholds_;
  // By ascending `first`, then by ascending size.
  std::vector<ShapeOption> options_;
};

// Tries sets of shapes with plans.
class ShapeChooser {
 public:
  ShapeChooser(const SizeHistogram& histogram, const DeviceProfile& profile,
               const OptimizerOptions& options, WorkBudget& budget)
      : histogram_(histogram),
        profile_(profile),
        options_(options),
        budget_(budget),
        picker_(histogram, profile, budget) {}

  // Those of the fewest shapes that are good enough; `most_cost` is that of one shape.
  absl::StatusOr<std::vector<ShapePacks>> Choose(double most_cost) {
    std::vector<ShapePacks> chosen;
    std::vector<size_t> picked = picker_.Single();
    best_set_ = picked;
    double enough = most_cost;
    int fruitless = 0;
    for (size_t size = 2; size <= profile_.max_distinct_shapes; ++size) {
      // Nothing costs less than the real rows.
      if (fruitless == kFruitlessSizes || enough <= picker_.CostOfRows() * (1 + kLeastGain)) break;
      std::vector<std::vector<size_t>> sets;
      if (!picked.empty()) picked = picker_.Extend(picked);
      if (!picked.empty()) sets.push_back(picked);
      for (std::vector<size_t>& set : picker_.Additions(best_set_)) sets.push_back(std::move(set));
      PH_RETURN_IF_ERROR(TrySets(sets));
      if (budget_.cancelled()) return budget_.Refusal();
      if (best_.size() > 1 && *least_cost_ * (1 + kLeastGain) < enough) {
        enough = *least_cost_;
        chosen = best_;
        fruitless = 0;
      } else {
        ++fruitless;
      }
    }
    return chosen;
  }

 private:
  // Sets of one size: the best of them, and what can be reached from there by exchanges.
  absl::Status TrySets(const std::vector<std::vector<size_t>>& sets) {
    least_cost_.reset();
    best_.clear();
    costs_.clear();
    // Half of the steps for the sizes to come.
    reserve_ = budget_.remaining() / 2;
    for (const std::vector<size_t>& set : sets) PH_RETURN_IF_ERROR(Try(set, 1).status());
    PH_RETURN_IF_ERROR(Climb(1));
    // Plans of few steps are uneven: the best sets again with more.
    std::vector<std::pair<double, std::vector<size_t>>> ranking;
    for (const auto& [set, cost] : costs_) ranking.emplace_back(cost, set);
    std::sort(ranking.begin(), ranking.end());
    if (ranking.size() > kSecondRound) ranking.resize(kSecondRound);
    costs_.clear();
    for (const auto& [cost, set] : ranking) PH_RETURN_IF_ERROR(Try(set, kSecondSteps).status());
    return Climb(kSecondSteps);
  }

  absl::Status Climb(uint64_t steps_factor) {
    for (bool better = least_cost_.has_value(); better;) {
      better = false;
      for (const std::vector<size_t>& set : picker_.Neighbours(best_set_)) {
        PH_ASSIGN_OR_RETURN(better, Try(set, steps_factor));
        if (better) break;
      }
    }
    return absl::OkStatus();
  }

  // Plans a set, if there are steps enough for it; whether it is the best of its size.
  absl::StatusOr<bool> Try(const std::vector<size_t>& set, uint64_t steps_factor) {
    OptimizerOptions options = options_;
    options.steps *= steps_factor;
    const uint64_t least_steps = set.size() * (options.steps + LeastPlanSteps(histogram_));
    const uint64_t left = budget_.remaining() - std::min(reserve_, budget_.remaining());
    if (left < least_steps || costs_.contains(set)) return false;
    std::vector<std::vector<uint64_t>> shapes;
    shapes.reserve(set.size());
    for (const size_t option : set) shapes.push_back(picker_.option(option).capacities);
    PH_ASSIGN_OR_RETURN(std::vector<ShapePacks> packs,
                        PlanForShapes(histogram_, shapes, options, budget_));
    const double cost = CostOfShapePacks(profile_, packs);
    costs_[set] = cost;
    if (least_cost_ && cost >= *least_cost_) return false;
    least_cost_ = cost;
    best_set_ = set;
    best_ = std::move(packs);
    std::erase_if(best_, [](const ShapePacks& shape) { return shape.plan.patterns.empty(); });
    return true;
  }

  const SizeHistogram& histogram_;
  const DeviceProfile& profile_;
  const OptimizerOptions& options_;
  WorkBudget& budget_;
  ShapePicker picker_;
  uint64_t reserve_ = 0;
  // The best set of the size that is being tried; of the size before if there is none yet.
  std::vector<size_t> best_set_;
  std::optional<double> least_cost_;
  std::vector<ShapePacks> best_;
  // Of the sets of that size that were planned with as many steps.
  std::map<std::vector<size_t>, double> costs_;
};

}  // namespace

absl::StatusOr<std::vector<ShapePacks>> PlanForShapes(
    const SizeHistogram& histogram, absl::Span<const std::vector<uint64_t>> shapes,
    const OptimizerOptions& options, WorkBudget& budget) {
  PlanItems items = ItemsOf(histogram);
  std::vector<uint64_t>& left = items.counts;
  std::vector<ShapePacks> result;
  for (size_t s = 0; s < shapes.size(); ++s) {
    result.push_back({shapes[s], items.empty_plan, SizeHistogram(histogram.num_components())});
    SizeHistogram forced(histogram.num_components());
    std::vector<uint32_t> numbers;
    for (uint32_t tuple = 0; tuple < left.size(); ++tuple) {
      const auto sizes = items.empty_plan.tuple(tuple);
      if (left[tuple] == 0 || (s + 1 < shapes.size() && Takes(shapes[s + 1], sizes))) continue;
      PH_RETURN_IF_ERROR(forced.Add(sizes, left[tuple]));
      numbers.push_back(tuple);
      left[tuple] = 0;
    }
    if (numbers.empty()) continue;
    PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(shapes[s]));
    PH_ASSIGN_OR_RETURN(CertifiedPlan plan, PlanWithinBudget(forced, limits, options, budget));
    RoomFiller filler(items.empty_plan, shapes[s], left, budget);
    for (Pattern& pattern : plan.plan.patterns) {
      // The tuples of both are ascending.
      for (PatternEntry& entry : pattern.entries) entry.tuple = numbers[entry.tuple];
      filler.Fill(std::move(pattern), result[s].plan.patterns);
    }
  }
  MoveToLastShapes(result);
  PH_RETURN_IF_ERROR(CountGraphs(histogram, result));
  return result;
}

double CostOfShapePacks(const DeviceProfile& profile, absl::Span<const ShapePacks> shapes) {
  double cost = 0;
  for (const ShapePacks& shape : shapes) {
    cost += static_cast<double>(shape.plan.num_packs()) * CostOfShape(profile, shape.capacities);
  }
  return cost;
}

absl::StatusOr<std::vector<ShapePacks>> ChooseShapes(const SizeHistogram& histogram,
                                                     const DeviceProfile& profile, double most_cost,
                                                     const OptimizerOptions& options,
                                                     WorkBudget& budget) {
  return ShapeChooser(histogram, profile, options, budget).Choose(most_cost);
}

}  // namespace packhouse
