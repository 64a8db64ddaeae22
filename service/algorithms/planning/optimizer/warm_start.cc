#include "service/algorithms/planning/optimizer/warm_start.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/types/span.h"
#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"

namespace packhouse {
namespace {

// Tuples of a plan are ascending.
std::optional<uint32_t> FindTuple(const PackingPlan& plan, absl::Span<const uint32_t> tuple) {
  size_t low = 0;
  size_t high = plan.num_tuples();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (plan.tuple(middle) < tuple) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == plan.num_tuples() || plan.tuple(low) != tuple) return std::nullopt;
  return static_cast<uint32_t>(low);
}

// The entries in this problem's numbers, without sizes that have no graphs; false if they do not
// fit together here.
bool Translate(const PackingProblem& problem, const PackingPlan& now, const MergedItems& merged,
               const PackingPlan& earlier, const Pattern& pattern,
               std::vector<PatternEntry>& entries) {
  std::vector<uint64_t> room(problem.capacities().begin(), problem.capacities().end());
  for (const auto& [tuple, copies] : pattern.entries) {
    if (tuple >= earlier.num_tuples() || copies == 0) return false;
    const std::optional<uint32_t> found = FindTuple(now, earlier.tuple(tuple));
    if (!found) continue;
    const uint32_t item = merged.merged(*found);
    if (problem.count(item) == 0) continue;
    for (size_t k = 0; k < room.size(); ++k) {
      const uint64_t rows = uint64_t{problem.sizes(item)[k]} * copies;
      if (rows > room[k]) return false;
      room[k] -= rows;
    }
    entries.push_back({item, copies});
  }
  std::sort(entries.begin(), entries.end(),
            [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
  // A tuple may have been listed twice, and several tuples may be one item.
  size_t last = 0;
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].tuple == entries[last].tuple) {
      if (entries[i].copies > UINT32_MAX - entries[last].copies) return false;
      entries[last].copies += entries[i].copies;
    } else {
      entries[++last] = entries[i];
    }
  }
  if (!entries.empty()) entries.resize(last + 1);
  return true;
}

}  // namespace

std::vector<Pattern> PlanFromWarmStart(const PackingProblem& problem, const PackingPlan& now,
                                       const MergedItems& merged, const PackingPlan& earlier,
                                       VectorLevel level, WorkBudget& budget,
                                       std::vector<Pattern>& pool) {
  std::vector<uint64_t> left(problem.counts().begin(), problem.counts().end());
  std::vector<Pattern> kept;
  uint64_t bytes = 0;
  for (const Pattern& pattern : earlier.patterns) {
    Pattern used;
    used.repeats = pattern.repeats;
    if (!Translate(problem, now, merged, earlier, pattern, used.entries)) continue;
    if (used.entries.empty()) continue;
    pool.push_back({used.entries, 1});
    for (const auto& [item, copies] : used.entries) {
      used.repeats = std::min(used.repeats, left[item] / copies);
    }
    if (used.repeats == 0) continue;
    for (const auto& [item, copies] : used.entries) left[item] -= copies * used.repeats;
    bytes += BytesInList(used);
    if (!budget.HoldList(bytes)) return {};
    kept.push_back(std::move(used));
  }
  const PackingProblem rest(problem, std::move(left));
  std::vector<Pattern> plan = std::move(kept);
  if (rest.num_graphs() != 0) {
    const std::vector<Pattern> more = PlanByFirstFitDecreasing(rest, level, &budget);
    plan.insert(plan.end(), more.begin(), more.end());
  }
  return plan;
}

}  // namespace packhouse
