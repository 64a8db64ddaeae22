#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"

#include <algorithm>

#include "service/algorithms/planning/optimizer/fit_index.h"

namespace packhouse {

namespace {

// Steps of a work budget for one pattern.
constexpr uint64_t kPatternSteps = 500;
// Steps of an entry, between two questions whether the caller gave up.
constexpr uint64_t kEntrySteps = 64;

}  // namespace

std::vector<uint32_t> HardestFirst(const PackingProblem& problem) {
  std::vector<double> shares(problem.num_items());
  for (size_t i = 0; i < shares.size(); ++i) {
    if (problem.count(i) != 0) shares[i] = problem.LargestShare(i);
  }
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < problem.num_items(); ++i) {
    if (problem.count(i) != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (shares[a] != shares[b]) return shares[a] > shares[b];
    const auto sizes_a = problem.sizes(a);
    const auto sizes_b = problem.sizes(b);
    if (sizes_a != sizes_b) return sizes_a > sizes_b;
    return a < b;
  });
  return order;
}

std::vector<Pattern> PlanByFirstFitDecreasing(const PackingProblem& problem, VectorLevel level,
                                              WorkBudget* budget) {
  const size_t m = problem.num_components();
  const std::vector<uint32_t> order = HardestFirst(problem);
  FitIndex index(problem, order, level);
  std::vector<uint64_t> left(problem.counts().begin(), problem.counts().end());
  std::vector<Pattern> patterns;
  // What a pack takes: the place in `order`, and the copies.
  std::vector<std::pair<size_t, uint64_t>> taken;
  std::vector<uint64_t> room(m);
  std::vector<uint32_t> clipped(m);
  size_t hardest = 0;
  uint64_t bytes = 0;
  for (;;) {
    while (hardest < order.size() && left[order[hardest]] == 0) ++hardest;
    if (hardest == order.size()) break;
    if (budget != nullptr && !budget->Spend(kPatternSteps)) break;
    // One pack: of the hardest item, then of each next one that fits, as many copies as fit. All
    // packs with the same copies are made at once.
    Pattern pattern;
    taken.clear();
    room.assign(problem.capacities().begin(), problem.capacities().end());
    uint64_t repeats = UINT64_MAX;
    for (size_t position = hardest; position < order.size();) {
      const uint32_t item = order[position];
      const auto sizes = problem.sizes(item);
      uint64_t copies = std::min(left[item], kMostCopies);
      for (size_t k = 0; k < m; ++k) {
        if (sizes[k] != 0) copies = std::min(copies, room[k] / sizes[k]);
      }
      for (size_t k = 0; k < m; ++k) {
        room[k] -= sizes[k] * copies;
        clipped[k] = static_cast<uint32_t>(std::min<uint64_t>(room[k], UINT32_MAX));
      }
      // The next pack takes the same copies while at least that many are left.
      repeats = std::min(repeats, left[item] / copies);
      AddCopies(item, copies, pattern);
      taken.emplace_back(position, copies);
      if (budget != nullptr && !budget->Pass(kEntrySteps)) return patterns;
      position = index.FirstFit(position + 1, clipped.data());
    }
    pattern.repeats = repeats;
    for (const auto& [position, copies] : taken) {
      uint64_t& of_item = left[order[position]];
      of_item -= copies * repeats;
      if (of_item == 0) index.Remove(position);
    }
    std::sort(pattern.entries.begin(), pattern.entries.end(),
              [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; });
    bytes += BytesInList(pattern);
    if (budget != nullptr && !budget->HoldList(bytes)) break;
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

}  // namespace packhouse
