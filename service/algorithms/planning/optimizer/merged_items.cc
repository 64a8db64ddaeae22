#include "service/algorithms/planning/optimizer/merged_items.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace packhouse {
namespace {

std::vector<uint32_t> Ascending(const PackingProblem& problem) {
  std::vector<uint32_t> items(problem.num_items());
  std::iota(items.begin(), items.end(), 0);
  std::sort(items.begin(), items.end(), [&problem](uint32_t a, uint32_t b) {
    const auto sizes_a = problem.sizes(a);
    const auto sizes_b = problem.sizes(b);
    return sizes_a == sizes_b ? a < b : sizes_a < sizes_b;
  });
  return items;
}

// The first of each run of equal sizes, and the end.
std::vector<uint32_t> StartsOfRuns(const PackingProblem& problem,
                                   absl::Span<const uint32_t> ascending) {
  std::vector<uint32_t> starts;
  for (uint32_t i = 0; i < ascending.size(); ++i) {
    if (i == 0 || problem.sizes(ascending[i]) != problem.sizes(ascending[i - 1])) {
      starts.push_back(i);
    }
  }
  starts.push_back(static_cast<uint32_t>(ascending.size()));
  return starts;
}

// Gives out the items of a run, each as often as it counts.
struct Cursor {
  uint32_t place = 0;  // In the ascending items.
  uint64_t left = 0;   // Of the item there.
};

}  // namespace

MergedItems::MergedItems(const PackingProblem& problem)
    : MergedItems(problem, Ascending(problem)) {}

MergedItems::MergedItems(const PackingProblem& problem, std::vector<uint32_t> ascending)
    : ascending_(std::move(ascending)),
      starts_(StartsOfRuns(problem, ascending_)),
      merged_of_(problem.num_items()),
      counts_(problem.counts().begin(), problem.counts().end()),
      merged_(problem, ascending_, starts_) {
  for (uint32_t merged = 0; merged + 1 < starts_.size(); ++merged) {
    for (uint32_t i = starts_[merged]; i < starts_[merged + 1]; ++i) {
      merged_of_[ascending_[i]] = merged;
    }
  }
}

std::optional<std::vector<Pattern>> MergedItems::Expand(absl::Span<const Pattern> patterns,
                                                        WorkBudget& budget) const {
  std::vector<Cursor> cursors(starts_.size() - 1);
  for (uint32_t merged = 0; merged < cursors.size(); ++merged) {
    cursors[merged] = {starts_[merged], counts_[ascending_[starts_[merged]]]};
  }
  // Moves on to an item that is left; false if there is none.
  const auto skip_used_up = [&](uint32_t merged) {
    Cursor& cursor = cursors[merged];
    while (cursor.left == 0) {
      if (cursor.place + 1 == starts_[merged + 1]) return false;
      cursor.left = counts_[ascending_[++cursor.place]];
    }
    return true;
  };
  std::vector<Pattern> expanded;
  uint64_t bytes = 0;
  for (const Pattern& pattern : patterns) {
    for (uint64_t left = pattern.repeats; left != 0;) {
      // As many packs as have the same items.
      Pattern now;
      now.repeats = left;
      for (const auto& [merged, copies] : pattern.entries) {
        if (!skip_used_up(merged)) return std::nullopt;
        now.repeats = std::clamp<uint64_t>(cursors[merged].left / copies, 1, now.repeats);
      }
      for (const auto& [merged, copies] : pattern.entries) {
        Cursor& cursor = cursors[merged];
        // Several items only if the first has fewer than one pack needs.
        for (uint32_t wanted = copies; wanted != 0;) {
          if (!skip_used_up(merged)) return std::nullopt;
          const auto taken = static_cast<uint32_t>(std::min<uint64_t>(wanted, cursor.left));
          if (taken * now.repeats > cursor.left) return std::nullopt;
          now.entries.push_back({ascending_[cursor.place], taken});
          cursor.left -= taken * now.repeats;
          wanted -= taken;
        }
      }
      std::sort(now.entries.begin(), now.entries.end(),
                [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
      left -= now.repeats;
      bytes += BytesInList(now);
      if (!budget.HoldList(bytes) || !budget.Pass(now.entries.size())) return std::nullopt;
      expanded.push_back(std::move(now));
    }
  }
  return expanded;
}

}  // namespace packhouse
