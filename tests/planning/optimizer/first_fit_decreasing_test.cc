#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A pack: copies by item. And how many packs are like that.
using Packs = std::map<std::map<uint32_t, uint64_t>, uint64_t>;

Packs PacksOf(absl::Span<const Pattern> patterns) {
  Packs packs;
  for (const Pattern& pattern : patterns) {
    std::map<uint32_t, uint64_t> copies;
    for (const auto& [item, number] : pattern.entries) copies[item] += number;
    packs[copies] += pattern.repeats;
  }
  return packs;
}

// Whether a's largest share of a capacity is larger than b's; negative for smaller. In whole
// numbers.
int CompareShares(const PackingProblem& problem, uint32_t a, uint32_t b) {
  const auto largest = [&](uint32_t item) {
    std::pair<uint64_t, uint64_t> share = {0, 1};
    for (size_t k = 0; k < problem.num_components(); ++k) {
      const uint64_t size = problem.sizes(item)[k];
      const uint64_t capacity = problem.capacity(k);
      if (size * share.second > share.first * capacity) share = {size, capacity};
    }
    return share;
  };
  const auto [size_a, capacity_a] = largest(a);
  const auto [size_b, capacity_b] = largest(b);
  const uint64_t left = size_a * capacity_b;
  const uint64_t right = size_b * capacity_a;
  return left == right ? 0 : left > right ? 1 : -1;
}

bool HarderThan(const PackingProblem& problem, uint32_t a, uint32_t b) {
  const int shares = CompareShares(problem, a, b);
  if (shares != 0) return shares > 0;
  if (problem.sizes(a) != problem.sizes(b)) return problem.sizes(a) > problem.sizes(b);
  return a < b;
}

// First-fit decreasing as in the books: graph by graph, all packs open.
Packs ReferencePacks(const PackingProblem& problem) {
  std::vector<uint32_t> graphs;
  for (uint32_t i = 0; i < problem.num_items(); ++i) {
    graphs.insert(graphs.end(), problem.count(i), i);
  }
  std::sort(graphs.begin(), graphs.end(),
            [&](uint32_t a, uint32_t b) { return a != b && HarderThan(problem, a, b); });
  struct OpenPack {
    std::vector<uint64_t> room;
    std::map<uint32_t, uint64_t> copies;
  };
  std::vector<OpenPack> packs;
  for (const uint32_t item : graphs) {
    const auto sizes = problem.sizes(item);
    size_t p = 0;
    for (; p < packs.size(); ++p) {
      bool fits = true;
      for (size_t k = 0; k < sizes.size(); ++k) fits = fits && sizes[k] <= packs[p].room[k];
      if (fits) break;
    }
    if (p == packs.size()) {
      packs.push_back({{problem.capacities().begin(), problem.capacities().end()}, {}});
    }
    for (size_t k = 0; k < sizes.size(); ++k) packs[p].room[k] -= sizes[k];
    ++packs[p].copies[item];
  }
  Packs result;
  for (const OpenPack& pack : packs) ++result[pack.copies];
  return result;
}

// The same packs, not only as many.
TEST(FirstFitDecreasingTest, EqualsTheReferenceWithAllPacksOpen) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_count = 20});
    const PackingProblem problem(histogram, limits);
    const std::vector<Pattern> patterns = PlanByFirstFitDecreasing(problem, VectorLevel::kPlain);
    EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
    EXPECT_EQ(PacksOf(patterns), ReferencePacks(problem));
    for (const VectorLevel level : VectorLevelsHere()) {
      EXPECT_EQ(PlanByFirstFitDecreasing(problem, level), patterns) << VectorLevelName(level);
    }
    for (const Pattern& pattern : patterns) {
      EXPECT_TRUE(std::is_sorted(
          pattern.entries.begin(), pattern.entries.end(),
          [](const PatternEntry& a, const PatternEntry& b) { return a.tuple < b.tuple; }));
    }
    if (HasFailure()) return;
  }
}

// Some items used up: what is planned is what is left.
TEST(FirstFitDecreasingTest, ItemsWithoutCountsAreNotThere) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_count = 20});
    const PackingProblem whole(histogram, limits);
    std::vector<uint64_t> counts(whole.counts().begin(), whole.counts().end());
    for (uint64_t& count : counts) count = random.Below(2) == 0 ? 0 : random.Between(0, count);
    const PackingProblem problem(whole, counts);
    const std::vector<Pattern> patterns = PlanByFirstFitDecreasing(problem, BestVectorLevel());
    EXPECT_EQ(PacksOf(patterns), ReferencePacks(problem));
    for (const uint32_t item : HardestFirst(problem)) EXPECT_GT(counts[item], 0);
    if (HasFailure()) return;
  }
}

TEST(HardestFirstTest, ByLargestShareThenSizesThenNumber) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    const std::vector<uint32_t> order = HardestFirst(problem);
    ASSERT_EQ(order.size(), problem.num_items());
    for (size_t p = 1; p < order.size(); ++p) {
      EXPECT_TRUE(HarderThan(problem, order[p - 1], order[p])) << order[p - 1] << " " << order[p];
    }
    if (HasFailure()) return;
  }
}

// 7 + 3, 6 + 3, 6: by hand, at capacity 10.
TEST(FirstFitDecreasingTest, ByHand) {
  const SizeHistogram histogram = HistogramOf(1, {{{7}, 1}, {{6}, 2}, {{3}, 2}});
  const PackingProblem problem(histogram, LimitsOf({10, kUnlimited}));
  EXPECT_THAT(HardestFirst(problem), ElementsAre(2, 1, 0));
  EXPECT_THAT(PlanByFirstFitDecreasing(problem, BestVectorLevel()),
              ElementsAre(Pattern{{{0, 1}, {2, 1}}, 1}, Pattern{{{0, 1}, {1, 1}}, 1},
                          Pattern{{{1, 1}}, 1}));
}

// Work is by patterns, not by graphs.
TEST(FirstFitDecreasingTest, CountsMayBeHuge) {
  constexpr uint64_t kMany = uint64_t{1} << 58;
  const SizeHistogram histogram =
      HistogramOf(1, {{{6}, kMany}, {{4}, kMany - 1}, {{3}, kMany + 5}});
  const Limits limits = LimitsOf({10, kUnlimited});
  const PackingProblem problem(histogram, limits);
  const std::vector<Pattern> patterns = PlanByFirstFitDecreasing(problem, BestVectorLevel());
  EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
  EXPECT_LE(patterns.size(), 5);
}

// An entry names at most 2^32 - 1 copies; a pack that holds more has several of them.
TEST(FirstFitDecreasingTest, APackHoldsMoreThanAnEntryNames) {
  constexpr uint64_t kMany = 1'000'000'000'000;
  const SizeHistogram histogram = HistogramOf(1, {{{1}, kMany}, {{7}, 3}});
  for (const uint64_t packs : {1, 5}) {
    const Limits limits = LimitsOf({(kMany + 21) / packs + 7, kUnlimited});
    const PackingProblem problem(histogram, limits);
    const PackingPlan plan = PlanOf(problem, PlanByFirstFitDecreasing(problem, BestVectorLevel()));
    EXPECT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
    EXPECT_EQ(plan.num_packs(), packs);
  }
}

// Beyond 2^48 of one size, packs are not as full as they could be.
TEST(FirstFitDecreasingTest, CapacitiesMayBeHuge) {
  constexpr uint64_t kMany = uint64_t{1} << 60;
  const SizeHistogram histogram = HistogramOf(1, {{{1}, kMany}, {{UINT32_MAX}, 1000}});
  for (const uint64_t capacity : {uint64_t{1} << 33, uint64_t{1} << 59, kMany - 1}) {
    const Limits limits = LimitsOf({capacity, kUnlimited});
    const PackingProblem problem(histogram, limits);
    const std::vector<Pattern> patterns = PlanByFirstFitDecreasing(problem, BestVectorLevel());
    EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
  }
}

TEST(FirstFitDecreasingTest, EdgeCases) {
  const PackingProblem empty(SizeHistogram(2), LimitsOf({10, 10, 5}));
  EXPECT_THAT(PlanByFirstFitDecreasing(empty, BestVectorLevel()), IsEmpty());
  // Nothing binds: one pack.
  const PackingProblem free(HistogramOf(1, {{{3}, 2}, {{0}, 9}}), LimitsOf({6, kUnlimited}));
  EXPECT_THAT(PlanByFirstFitDecreasing(free, BestVectorLevel()),
              ElementsAre(Pattern{{{0, 9}, {1, 2}}, 1}));
  // Graphs exactly as large as the limits.
  const PackingProblem full(HistogramOf(2, {{{6, 4}, 5}}), LimitsOf({6, 4, kUnlimited}));
  EXPECT_THAT(PlanByFirstFitDecreasing(full, BestVectorLevel()), ElementsAre(Pattern{{{0, 1}}, 5}));
}

// Who is stopped has used no graph twice and filled no pack beyond its limits.
TEST(FirstFitDecreasingTest, ABudgetStopsIt) {
  int stopped = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    const std::vector<Pattern> all = PlanByFirstFitDecreasing(problem, BestVectorLevel());
    WorkBudget ample;
    EXPECT_EQ(PlanByFirstFitDecreasing(problem, BestVectorLevel(), &ample), all);
    const uint64_t used = WorkBudget::kDefaultSteps - ample.remaining();
    WorkBudget budget(random.Below(used + 1));
    const std::vector<Pattern> some = PlanByFirstFitDecreasing(problem, BestVectorLevel(), &budget);
    ASSERT_LE(some.size(), all.size());
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
    stopped += some.size() < all.size();
    if (HasFailure()) return;
  }
  EXPECT_GT(stopped, 100);
}

}  // namespace
}  // namespace packhouse
