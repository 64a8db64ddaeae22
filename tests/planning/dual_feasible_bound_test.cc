#include "service/algorithms/planning/dual_feasible_bound.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/component_program.h"
#include "tests/planning/exact_solver.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/fingerprint.h"

namespace packhouse {
namespace {

constexpr uint64_t kAmpleSteps = uint64_t{1} << 50;

uint64_t ByFunction(const SizeHistogram& histogram, const Limits& limits,
                    uint64_t steps = kAmpleSteps) {
  WorkBudget budget(steps);
  return ComputeDualFeasibleBound(PackingProblem(histogram, limits), budget).packs;
}

uint64_t ByProgram(const SizeHistogram& histogram, const Limits& limits) {
  WorkBudget budget(kAmpleSteps);
  return ComponentProgramBound(PackingProblem(histogram, limits), 0, BestVectorLevel(), budget);
}

// Halves: two sizes of more than half never share a pack.
TEST(DualFeasibleBoundTest, LargeSizesCountAsWholePacks) {
  const SizeHistogram histogram = HistogramOf(1, {{{6}, 10}, {{4}, 3}, {{5}, 2}});
  // 5 beside 6 does not fit: 10 packs, and one of both fives.
  EXPECT_EQ(ByFunction(histogram, LimitsOf({10, kUnlimited})), 11);
  EXPECT_EQ(ByProgram(histogram, LimitsOf({10, kUnlimited})), 11);
}

// Thirds: three fit nowhere, so that two are all.
TEST(DualFeasibleBoundTest, SizesAboveAThirdGoByTwo) {
  const SizeHistogram histogram = HistogramOf(1, {{{35}, 60}});
  EXPECT_EQ(ByFunction(histogram, LimitsOf({101, kUnlimited})), 30);
  EXPECT_EQ(ByFunction(histogram, LimitsOf({105, kUnlimited})), 20);
  EXPECT_EQ(ByFunction(HistogramOf(1, {{{201}, 1000}, {{5}, 2}}), LimitsOf({1000, kUnlimited})),
            250);
}

TEST(DualFeasibleBoundTest, EdgeCases) {
  EXPECT_EQ(ByFunction(SizeHistogram(2), LimitsOf({10, 10, 2})), 0);
  EXPECT_EQ(ByProgram(SizeHistogram(2), LimitsOf({10, 10, 2})), 0);
  EXPECT_EQ(ByFunction(HistogramOf(1, {{{1}, 5}}), LimitsOf({1, kUnlimited})), 5);
  EXPECT_EQ(ByFunction(HistogramOf(1, {{{0}, 9}, {{2}, 5}}), LimitsOf({3, kUnlimited})), 5);
  EXPECT_EQ(ByProgram(HistogramOf(1, {{{0}, 9}, {{2}, 5}}), LimitsOf({3, 2})), 7);
  // The largest sizes and counts do not overflow.
  EXPECT_EQ(ByFunction(HistogramOf(1, {{{UINT32_MAX}, uint64_t{1} << 31}}),
                       LimitsOf({UINT32_MAX, kUnlimited})),
            uint64_t{1} << 31);
  EXPECT_EQ(ByFunction(HistogramOf(1, {{{UINT32_MAX - 1}, uint64_t{1} << 31}, {{7}, 3}}),
                       LimitsOf({uint64_t{UINT32_MAX} * 2, kUnlimited})),
            uint64_t{1} << 30);
}

// Less work never gives more than the optimum, either.
TEST(DualFeasibleBoundTest, NeverAboveTheOptimum) {
  Fingerprint bounds;
  int tight = 0;
  int tight_by_program = 0;
  constexpr int kWorlds = 1500;
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(
        random, {.max_components = 3, .max_distinct = 7, .max_count = 2, .max_capacity = 30});
    const uint64_t optimum = OptimalPacks(histogram, limits);
    const uint64_t bound = ByFunction(histogram, limits);
    EXPECT_LE(bound, optimum);
    const uint64_t by_less_work = ByFunction(histogram, limits, random.Below(200));
    EXPECT_LE(by_less_work, bound);
    const uint64_t program = ByProgram(histogram, limits);
    for (const uint64_t each : {bound, by_less_work, program}) bounds.Add(each);
    EXPECT_LE(program, optimum);
    tight += bound == optimum;
    tight_by_program += program == optimum;
  }
  EXPECT_GT(tight, kWorlds / 2);
  EXPECT_GT(tight_by_program, kWorlds / 3);
  EXPECT_EQ(bounds.value(), 2224564123986930849U);
}

// With one component, no function gives more than the program, which is the best of them all.
TEST(DualFeasibleBoundTest, TheProgramOfAComponentIsAtLeastAsGood) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SizeHistogram histogram(1);
    const uint64_t capacity = random.Between(20, 200);
    for (int i = 0; i < 12; ++i) {
      ASSERT_TRUE(histogram
                      .Add({static_cast<uint32_t>(random.Between(1, capacity * 2 / 3))},
                           random.Between(1, 40))
                      .ok());
    }
    const Limits limits = LimitsOf({capacity, kUnlimited});
    EXPECT_GE(ByProgram(histogram, limits), ByFunction(histogram, limits));
  }
}

}  // namespace
}  // namespace packhouse
