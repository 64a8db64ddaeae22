#include "service/algorithms/planning/optimizer/plan_improvement.h"

#include <cstddef>
#include <cstdint>
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

constexpr uint64_t kImprovementSteps = 300'000;

// As bad as a plan can be.
std::vector<Pattern> OneGraphAPack(const PackingProblem& problem) {
  std::vector<Pattern> patterns;
  for (uint32_t i = 0; i < problem.num_items(); ++i) {
    patterns.push_back({{{i, 1}}, problem.count(i)});
  }
  return patterns;
}

// Packing anew may reorder graphs, never lose, repeat or overfill, and never costs a pack.
TEST(PlanImprovementTest, APlanStaysAPlanAndSavesWhatItSays) {
  Fingerprint plans;
  uint64_t saved_packs = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    const uint64_t bound = ComputeVolumeBound(histogram, limits).packs;
    std::vector<Pattern> patterns = random.Below(2) == 0
                                        ? OneGraphAPack(problem)
                                        : PlanByFirstFitDecreasing(problem, BestVectorLevel());
    const uint64_t before = PlanOf(problem, patterns).num_packs();
    ImprovementOptions options;
    options.target = random.Below(2) == 0 ? bound : 0;
    options.seed = seed;
    options.max_fruitless_tries = 20;
    WorkBudget budget(kImprovementSteps);
    const uint64_t saved = ImprovePlan(problem, options, patterns, budget);
    const PackingPlan plan = PlanOf(problem, patterns);
    EXPECT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
    EXPECT_LE(plan.num_packs(), before);
    EXPECT_EQ(plan.num_packs() + saved, before);
    EXPECT_GE(plan.num_packs(), bound);
    saved_packs += saved;
    AddPatterns(patterns, plans);
    plans.Add(budget.remaining());
    if (HasFailure()) return;
  }
  EXPECT_GT(saved_packs, 30000);
  EXPECT_EQ(plans.value(), 14560436321708293079U);
}

// Where there is nothing to gain, what is packed anew is kept only if it is not worse: one try at a
// time, or a later one might make up for it.
TEST(PlanImprovementTest, NoTryCostsAPack) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_distinct = 12});
    const PackingProblem problem(histogram, limits);
    std::vector<Pattern> patterns = PlanByFirstFitDecreasing(problem, BestVectorLevel());
    ImprovementOptions options;
    options.max_fruitless_tries = 1;
    for (int i = 0; i < 60; ++i) {
      options.seed = random.Next();
      const uint64_t before = PlanOf(problem, patterns).num_packs();
      WorkBudget budget(kImprovementSteps);
      const uint64_t saved = ImprovePlan(problem, options, patterns, budget);
      ASSERT_LE(PlanOf(problem, patterns).num_packs(), before);
      ASSERT_EQ(PlanOf(problem, patterns).num_packs() + saved, before);
    }
    EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
    if (HasFailure()) return;
  }
}

TEST(PlanImprovementTest, SameArgumentsSamePlan) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    ImprovementOptions options;
    options.seed = seed;
    options.max_fruitless_tries = 20;
    options.vector_level = VectorLevel::kPlain;
    std::vector<Pattern> expected = OneGraphAPack(problem);
    WorkBudget budget(kImprovementSteps);
    const uint64_t saved = ImprovePlan(problem, options, expected, budget);
    for (const VectorLevel level : VectorLevelsHere()) {
      options.vector_level = level;
      std::vector<Pattern> patterns = OneGraphAPack(problem);
      WorkBudget again(kImprovementSteps);
      EXPECT_EQ(ImprovePlan(problem, options, patterns, again), saved) << VectorLevelName(level);
      EXPECT_EQ(patterns, expected) << VectorLevelName(level);
      EXPECT_EQ(again.remaining(), budget.remaining());
    }
    if (HasFailure()) return;
  }
}

TEST(PlanImprovementTest, NothingIsTouchedWhereNothingIsToBeDone) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    const std::vector<Pattern> before = OneGraphAPack(problem);
    std::vector<Pattern> patterns = before;
    ImprovementOptions few_enough;
    few_enough.target = histogram.num_graphs();
    WorkBudget budget(kImprovementSteps);
    EXPECT_EQ(ImprovePlan(problem, few_enough, patterns, budget), 0);
    EXPECT_EQ(patterns, before);
    EXPECT_EQ(budget.remaining(), kImprovementSteps);
    ImprovementOptions no_tries;
    no_tries.max_fruitless_tries = 0;
    EXPECT_EQ(ImprovePlan(problem, no_tries, patterns, budget), 0);
    EXPECT_EQ(patterns, before);
    WorkBudget nothing(0);
    EXPECT_EQ(ImprovePlan(problem, {}, patterns, nothing), 0);
    EXPECT_EQ(patterns, before);
    if (HasFailure()) return;
  }
}

// This holds at any time, and for a budget that is used up as for a caller that gives up.
TEST(PlanImprovementTest, WhoIsStoppedLeavesAWholePlan) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    std::vector<Pattern> patterns = OneGraphAPack(problem);
    WorkBudget budget(random.Below(20'000));
    ImprovePlan(problem, {}, patterns, budget);
    EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
    WorkBudget cancelled(10'000'000, [] { return true; });
    ImprovePlan(problem, {}, patterns, cancelled);
    EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
    if (HasFailure()) return;
  }
}

// 10 packs of 6 + 3 + 1 are 15 if each is packed alone or badly.
TEST(PlanImprovementTest, FindsTheOptimumOfASmallWorld) {
  SizeHistogram histogram(1);
  for (const uint32_t size : {6, 3, 1}) ASSERT_THAT(histogram.Add({{size}}, 10), IsOk());
  const Limits limits = Limits::Create({10, kUnlimited}).value();
  const PackingProblem problem(histogram, limits);
  std::vector<Pattern> patterns = OneGraphAPack(problem);
  ImprovementOptions options;
  options.target = 10;
  WorkBudget budget(10'000'000);
  EXPECT_EQ(ImprovePlan(problem, options, patterns, budget), 20);
  EXPECT_THAT(VerifyPlan(PlanOf(problem, patterns), histogram, limits), IsOk());
}

TEST(PlanImprovementTest, AnEmptyPlan) {
  const PackingProblem problem(SizeHistogram(1), Limits::Create({10, kUnlimited}).value());
  std::vector<Pattern> patterns;
  WorkBudget budget(kImprovementSteps);
  EXPECT_EQ(ImprovePlan(problem, {}, patterns, budget), 0);
  EXPECT_TRUE(patterns.empty());
}

}  // namespace
}  // namespace packhouse
