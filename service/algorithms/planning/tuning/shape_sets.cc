#include "service/algorithms/planning/tuning/shape_sets.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/optimizer/budgeted_plan.h"
#include "service/algorithms/planning/tuning/shape_picker.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// How many sets are planned again, and the factor for their steps.
constexpr size_t kSecondRound = 8;
constexpr uint64_t kSecondSteps = 4;
// A further shape has to be compiled, so it should save at least this share.
constexpr double kLeastGain = 1e-3;
// After this many numbers of shapes without such a gain, no more are tried.
constexpr int kFruitlessSizes = 2;

bool Takes(absl::Span<const uint64_t> capacities, absl::Span<const uint32_t> tuple) {
  for (size_t k = 0; k < tuple.size(); ++k) {
    if (tuple[k] > capacities[k]) return false;
  }
  return true;
}

// The number of the last shape that takes a graph of this size; that of no shape if none does.
size_t LastThatTakes(absl::Span<const std::vector<uint64_t>> shapes,
                     absl::Span<const uint32_t> tuple) {
  size_t last = shapes.size();
  while (last != 0 && !Takes(shapes[last - 1], tuple)) --last;
  return last == 0 ? shapes.size() : last - 1;
}

// Fills packs, one after the other, with the items that are left, the hardest first.
class RoomFiller {
 public:
  // `left`: graphs of each tuple of `plan`; used graphs are subtracted.
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
      bytes_ += BytesInList(next);
      if (!budget_.HoldList(bytes_)) return;
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
      // A pack that stays as it is wastes room and nothing else.
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
  uint64_t bytes_ = 0;  // Of the patterns that were filled.
  // The items that are left at first, hardest first; the largest share of a capacity of each; and
  // the smallest size of each component from there on.
  std::vector<uint32_t> order_;
  std::vector<double> shares_;
  std::vector<uint32_t> smallest_;
};

// Fills in the graphs of each shape. Checks that every graph is in one pack, and every pack within
// its shape.
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

  // The set with the fewest shapes that is good enough; `most_cost` is the cost of one shape.
  absl::StatusOr<std::vector<ShapePacks>> Choose(double most_cost) {
    std::vector<ShapePacks> chosen;
    ShapeSet picked = picker_.BestSingle();
    best_set_ = picked;
    double enough = most_cost;
    int fruitless = 0;
    for (size_t size = 2; size <= profile_.max_distinct_shapes; ++size) {
      // Nothing costs less than the real rows.
      if (fruitless == kFruitlessSizes || enough <= picker_.CostOfRows() * (1 + kLeastGain)) break;
      std::vector<ShapeSet> sets;
      if (!picked.empty()) picked = picker_.Extend(picked);
      if (!picked.empty()) sets.push_back(picked);
      for (ShapeSet& set : picker_.Additions(best_set_)) sets.push_back(std::move(set));
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
  // Tries sets of one size, and then sets that the best of them reaches by exchanges.
  absl::Status TrySets(const std::vector<ShapeSet>& sets) {
    least_cost_.reset();
    best_.clear();
    costs_.clear();
    // Keeps half of the steps for the later sizes.
    reserve_ = budget_.remaining() / 2;
    for (const ShapeSet& set : sets) PH_RETURN_IF_ERROR(Try(set, 1).status());
    PH_RETURN_IF_ERROR(Climb(1));
    // Plans of few steps vary in quality: the best sets are planned again with more steps.
    std::vector<std::pair<double, ShapeSet>> ranking;
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
      for (const ShapeSet& set : picker_.Neighbours(best_set_)) {
        PH_ASSIGN_OR_RETURN(better, Try(set, steps_factor));
        if (better) break;
      }
    }
    return absl::OkStatus();
  }

  // Plans a set if there are enough steps. Returns whether it is the best of its size.
  absl::StatusOr<bool> Try(const ShapeSet& set, uint64_t steps_factor) {
    OptimizerOptions options = options_;
    options.steps *= steps_factor;
    const uint64_t least_steps = set.size() * (options.steps + LeastPlanSteps(histogram_));
    const uint64_t left = budget_.remaining() - std::min(reserve_, budget_.remaining());
    if (left < least_steps || costs_.contains(set)) return false;
    std::vector<std::vector<uint64_t>> shapes;
    shapes.reserve(set.size());
    for (const size_t option : set) {
      std::vector<uint64_t> capacities = picker_.option(option).capacities;
      // In components with a cost the set is already nested. A smaller shape leaves more memory to
      // components without a cost, but the largest shape must take everything that the others take.
      for (size_t k = 0; k < capacities.size() && !shapes.empty(); ++k) {
        capacities[k] = std::min(capacities[k], shapes.back()[k]);
      }
      shapes.push_back(std::move(capacities));
    }
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
  // The best set of the size that is being tried; if there is none yet, of the previous size.
  ShapeSet best_set_;
  std::optional<double> least_cost_;
  std::vector<ShapePacks> best_;
  // Costs of the sets of that size that were planned with the same number of steps.
  std::map<ShapeSet, double> costs_;
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
      if (left[tuple] == 0 || LastThatTakes(shapes, sizes) != s) continue;
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
    if (budget.cancelled()) return budget.Refusal();
  }
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
