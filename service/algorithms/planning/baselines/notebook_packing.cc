#include "service/algorithms/planning/baselines/notebook_packing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

struct OpenPattern {
  Pattern pattern;
  std::vector<uint64_t> room;
  uint64_t graphs = 0;
};

}  // namespace

absl::StatusOr<PackingPlan> PlanByNotebook(const SizeHistogram& histogram, const Limits& limits,
                                           const Priority& priority, WorkBudget& budget) {
  const size_t l = histogram.num_components();
  for (size_t k = 0; k < l; ++k) {
    if (!limits.has_limit(k)) {
      return absl::InvalidArgumentError(
          absl::StrCat("notebook packing: component number ", k, " has no limit"));
    }
  }
  Priority quirky = priority;
  if (quirky.kind == PriorityKind::kMin) quirky.kind = PriorityKind::kMax;
  PH_ASSIGN_OR_RETURN(const PriorityFunction function, PriorityFunction::Create(quirky, limits));

  PlanItems items = ItemsOf(histogram);
  PackingPlan plan = std::move(items.empty_plan);
  std::vector<std::pair<PriorityValue, uint32_t>> order;
  for (uint32_t row = 0; row < items.counts.size(); ++row) {
    order.emplace_back(function.Of(plan.tuple(row)), row);
  }
  std::sort(order.rbegin(), order.rend());

  const std::vector<uint64_t> capacity(limits.capacities().begin(), limits.capacities().end() - 1);
  const PriorityValue largest = function.Of(absl::MakeConstSpan(capacity));
  std::map<PriorityValue, std::vector<OpenPattern>> open;

  // The number of patterns only grows. At worst each has a bucket of its own, and it grows one
  // entry at a time.
  uint64_t bytes = 0;
  const auto hold = [&](const OpenPattern& pattern) {
    bytes += 2 * BytesInList(pattern.pattern) + 6 * sizeof(OpenPattern) +
             2 * sizeof(uint64_t) * pattern.room.capacity();
    return budget.HoldList(bytes);
  };
  // Adds one graph of size `row` to every pack of a pattern, and files the pattern.
  const auto add = [&](OpenPattern pattern, uint32_t row) {
    pattern.pattern.entries.push_back({row, 1});
    bytes += 2 * sizeof(PatternEntry);
    for (size_t k = 0; k < l; ++k) pattern.room[k] -= plan.tuple(row)[k];
    ++pattern.graphs;
    const PriorityValue left = function.Of(absl::MakeConstSpan(pattern.room));
    if (left == 0 || pattern.graphs == limits.graphs()) {
      plan.patterns.push_back(std::move(pattern.pattern));
    } else {
      open[left].push_back(std::move(pattern));
    }
  };

  for (const auto& next : order) {
    const PriorityValue size = next.first;
    const uint32_t row = next.second;
    uint64_t remaining = items.counts[row];
    PriorityValue search_from = size;
    while (remaining > 0) {
      const auto bucket = open.lower_bound(search_from);
      if (bucket == open.end() || bucket->first > largest) break;
      std::vector<OpenPattern>& patterns = bucket->second;
      const auto found =
          std::find_if(patterns.begin(), patterns.end(), [&](const OpenPattern& pattern) {
            for (size_t k = 0; k < l; ++k) {
              if (plan.tuple(row)[k] > pattern.room[k]) return false;
            }
            return true;
          });
      // Looks at the patterns before it, and moves those behind it.
      if (!budget.Spend(patterns.size() + 1)) return budget.Refusal();
      if (found == patterns.end()) {
        search_from = bucket->first + 1;
        continue;
      }
      OpenPattern chosen = std::move(*found);
      patterns.erase(found);
      const uint64_t placed = std::min(chosen.pattern.repeats, remaining);
      if (chosen.pattern.repeats > placed) {
        if (!hold(chosen)) return budget.Refusal();
        OpenPattern rest = chosen;
        rest.pattern.repeats -= placed;
        patterns.push_back(std::move(rest));
      }
      if (patterns.empty()) open.erase(bucket);
      chosen.pattern.repeats = placed;
      add(std::move(chosen), row);
      remaining -= placed;
      search_from = size + 1;
    }
    if (remaining > 0) {
      OpenPattern fresh;
      fresh.room = capacity;
      fresh.pattern.repeats = remaining;
      if (!hold(fresh)) return budget.Refusal();
      add(std::move(fresh), row);
    }
  }
  for (auto& [left, patterns] : open) {
    for (OpenPattern& pattern : patterns) plan.patterns.push_back(std::move(pattern.pattern));
  }
  return plan;
}

}  // namespace packhouse
