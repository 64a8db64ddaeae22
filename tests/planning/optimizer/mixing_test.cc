#include "service/algorithms/planning/optimizer/mixing.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"
#include "tests/planning/plan_fingerprint.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::Optional;

constexpr uint64_t kAmple = uint64_t{1} << 40;

std::optional<std::vector<Pattern>> Mix(const PackingProblem& problem, const MixingOptions& options,
                                        uint64_t steps = kAmple) {
  WorkBudget budget(steps);
  return PlanByMixing(problem, options, budget);
}

bool EntriesAscend(const Pattern& pattern) {
  for (size_t i = 1; i < pattern.entries.size(); ++i) {
    if (pattern.entries[i - 1].tuple >= pattern.entries[i].tuple) return false;
  }
  return true;
}

// Packing may reorder graphs, never lose, repeat or overfill, whatever the options.
TEST(MixingTest, EveryPlanPartitionsItsHistogram) {
  Fingerprint plans;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    const uint64_t bound = ComputeVolumeBound(histogram, limits).packs;
    MixingOptions options;
    options.seed = random.Next();
    options.target = random.Below(3) == 0 ? 0 : bound + random.Below(3);
    options.attempts = static_cast<uint32_t>(random.Below(50));
    options.finish_at = static_cast<double>(random.Below(20)) / 2;
    const auto patterns = Mix(problem, options);
    ASSERT_TRUE(patterns);
    for (const Pattern& pattern : *patterns) EXPECT_TRUE(EntriesAscend(pattern));
    const PackingPlan plan = PlanOf(problem, *patterns);
    EXPECT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
    EXPECT_GE(plan.num_packs(), bound);
    AddPatterns(*patterns, plans);
    if (HasFailure()) return;
  }
  EXPECT_EQ(plans.value(), 7090157808139730774U);
}

// Twice, and with every kind of vector instructions.
TEST(MixingTest, SameArgumentsSamePlan) {
  int different_seeds_differ = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_distinct = 200, .max_capacity = 200});
    const PackingProblem problem(histogram, limits);
    MixingOptions options;
    options.seed = seed;
    options.vector_level = VectorLevel::kPlain;
    WorkBudget budget(kAmple);
    const auto expected = PlanByMixing(problem, options, budget);
    for (const VectorLevel level : VectorLevelsHere()) {
      options.vector_level = level;
      WorkBudget again(kAmple);
      EXPECT_EQ(PlanByMixing(problem, options, again), expected) << VectorLevelName(level);
      EXPECT_EQ(again.remaining(), budget.remaining());
    }
    ++options.seed;
    different_seeds_differ += Mix(problem, options) != expected;
    if (HasFailure()) return;
  }
  EXPECT_GT(different_seeds_differ, 50);
}

// The bound stops it, and does nothing else.
TEST(MixingTest, SoManyPacksAreTooMany) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    if (histogram.num_graphs() == 0) continue;
    const PackingProblem problem(histogram, limits);
    MixingOptions options;
    const auto patterns = Mix(problem, options);
    ASSERT_TRUE(patterns);
    const uint64_t packs = PlanOf(problem, *patterns).num_packs();
    options.too_many = packs + 1;
    EXPECT_THAT(Mix(problem, options), Optional(*patterns));
    for (const uint64_t too_many : {packs, packs - 1, uint64_t{1}, uint64_t{0}}) {
      options.too_many = too_many;
      EXPECT_EQ(Mix(problem, options), std::nullopt) << too_many;
      // It does not let first-fit decreasing through either.
      const auto hurried = Mix(problem, options, random.Below(1000));
      if (hurried) {
        EXPECT_LT(PlanOf(problem, *hurried).num_packs(), too_many);
      }
    }
    if (HasFailure()) return;
  }
}

// However few the steps, there is a plan; with none it is first-fit decreasing.
TEST(MixingTest, WithoutBudgetTheRestIsPackedByFirstFitDecreasing) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    EXPECT_THAT(Mix(problem, {}, 0),
                Optional(PlanByFirstFitDecreasing(problem, BestVectorLevel())));
    WorkBudget ample(kAmple);
    ASSERT_TRUE(PlanByMixing(problem, {}, ample));
    const uint64_t used = kAmple - ample.remaining();
    for (int i = 0; i < 10; ++i) {
      const auto patterns = Mix(problem, {}, random.Below(used + 1));
      ASSERT_TRUE(patterns);
      EXPECT_THAT(VerifyPlan(PlanOf(problem, *patterns), histogram, limits), IsOk());
    }
    if (HasFailure()) return;
  }
}

TEST(MixingTest, NothingForWhoGaveUp) {
  Random random(0);
  SizeHistogram histogram(2);
  for (uint32_t i = 0; i < 500; ++i) {
    ASSERT_THAT(histogram.Add({{static_cast<uint32_t>(random.Between(1, 90)),
                                static_cast<uint32_t>(random.Between(1, 90))}},
                              random.Between(1, 9)),
                IsOk());
  }
  const PackingProblem problem(histogram, LimitsOf({200, 200, kUnlimited}));
  int asked = 0;
  WorkBudget budget(kAmple, [&asked] { return ++asked == 3; });
  EXPECT_EQ(PlanByMixing(problem, {}, budget), std::nullopt);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(PlanByMixing(problem, {}, budget), std::nullopt) << "nor later";
}

// What fits is found among many components only after many looks. A budget is of work, so that
// these are steps: the plan of many components takes far more of them for a graph.
TEST(MixingTest, LooksAtManyComponentsAreSteps) {
  const auto steps_of_graph = [](size_t num_components) {
    constexpr uint64_t kGraphs = 5000;
    Random random(num_components);
    SizeHistogram histogram(num_components);
    for (uint64_t i = 0; i < kGraphs; ++i) {
      std::vector<uint32_t> sizes;
      for (size_t k = 0; k < num_components; ++k) {
        sizes.push_back(static_cast<uint32_t>(random.Below(1000)));
      }
      EXPECT_THAT(histogram.Add(sizes), IsOk());
    }
    std::vector<uint64_t> capacities(num_components, 3000);
    capacities.push_back(kUnlimited);
    WorkBudget budget(kAmple);
    EXPECT_TRUE(PlanByMixing(PackingProblem(histogram, LimitsOf(capacities)), {}, budget));
    return (kAmple - budget.remaining()) / kGraphs;
  };
  EXPECT_GT(steps_of_graph(20), 4 * steps_of_graph(2));
}

// Sizes that first-fit decreasing packs badly: it spends the small ones, which alone can fill a
// pack, on the first packs.
TEST(MixingTest, SmallGraphsLastAsLongAsLargeOnes) {
  SizeHistogram histogram(2);
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_THAT(histogram.Add({{20 + i, 2 * (20 + i % 7 * 9)}}, 40), IsOk());
  }
  const Limits limits = LimitsOf({512, 700, kUnlimited});
  const PackingProblem problem(histogram, limits);
  const auto packs_of = [&](std::vector<Pattern> patterns) {
    return PlanOf(problem, std::move(patterns)).num_packs();
  };
  MixingOptions options;
  options.target = ComputeVolumeBound(histogram, limits).packs;
  const uint64_t mixed = packs_of(*Mix(problem, options));
  EXPECT_LT(mixed, packs_of(PlanByFirstFitDecreasing(problem, BestVectorLevel())));
  EXPECT_LE(mixed, options.target + 2);
}

// Far more graphs a pack than can be drawn, and fillers so small that a pack takes millions of
// them: the budget bounds the work for one pack, too, or this would not end.
TEST(MixingTest, PacksMayHoldBillionsOfGraphs) {
  constexpr uint64_t kMany = uint64_t{1} << 45;
  const std::pair<SizeHistogram, Limits> worlds[] = {
      {HistogramOf(1, {{{1}, kMany}, {{2}, kMany}}), LimitsOf({kMany / 2, kUnlimited})},
      {HistogramOf(1, {{{1}, kMany}, {{2}, kMany}}), LimitsOf({kMany + 1, kUnlimited})},
      {HistogramOf(1, {{{2000000000}, 1000000}, {{1}, 1000000000}}),
       LimitsOf({4400000000, kUnlimited})},
      {HistogramOf(2, {{{1, 0}, kMany}, {{0, 1}, kMany}, {{UINT32_MAX, UINT32_MAX}, 3}}),
       LimitsOf({kMany / 3, kMany / 5, kUnlimited})}};
  for (const auto& [histogram, limits] : worlds) {
    const PackingProblem problem(histogram, limits);
    const auto patterns = Mix(problem, {}, 3'000'000);
    ASSERT_TRUE(patterns);
    EXPECT_THAT(VerifyPlan(PlanOf(problem, *patterns), histogram, limits), IsOk());
  }
}

TEST(MixingTest, EdgeCases) {
  const PackingProblem empty(SizeHistogram(2), LimitsOf({10, 10, 5}));
  EXPECT_THAT(Mix(empty, {}), Optional(std::vector<Pattern>()));
  // Nothing binds: one pack.
  const PackingProblem free(HistogramOf(1, {{{3}, 2}, {{0}, 9}}), LimitsOf({6, kUnlimited}));
  EXPECT_THAT(Mix(free, {}), Optional(std::vector<Pattern>{{{{0, 9}, {1, 2}}, 1}}));
  const PackingProblem full(HistogramOf(2, {{{6, 4}, 5}}), LimitsOf({6, 4, kUnlimited}));
  EXPECT_THAT(Mix(full, {}), Optional(std::vector<Pattern>{{{{0, 1}}, 5}}));
  const PackingProblem equal(HistogramOf(1, {{{3}, 7}}), LimitsOf({10, kUnlimited}));
  EXPECT_THAT(Mix(equal, {}), Optional(std::vector<Pattern>{{{{0, 3}}, 2}, {{{0, 1}}, 1}}));
}

}  // namespace
}  // namespace packhouse
