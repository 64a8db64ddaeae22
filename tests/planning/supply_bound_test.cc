#include "service/algorithms/planning/supply_bound.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/planning/exact_solver.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

constexpr uint64_t kAmpleSteps = uint64_t{1} << 50;

LowerBound BySupply(const SizeHistogram& histogram, const Limits& limits,
                    uint64_t steps = kAmpleSteps) {
  WorkBudget budget(steps);
  return ComputeSupplyBound(PackingProblem(histogram, limits), budget);
}

uint64_t ByLift(const SizeHistogram& histogram, const Limits& limits) {
  WorkBudget budget(kAmpleSteps);
  return ComputeLiftedVolumeBound(PackingProblem(histogram, limits), BestVectorLevel(), budget)
      .packs;
}

// Ten large graphs, beside each of which ten sparse graphs fit, or two of the others. There are
// only twenty sparse ones.
TEST(SupplyBoundTest, LargeGraphsShareTheSparseOnes) {
  const SizeHistogram histogram =
      HistogramOf(2, {{{100, 9000}, 10}, {{90, 100}, 20}, {{90, 400}, 200}});
  const Limits limits = LimitsOf({1000, 10'000, kUnlimited});
  // Two of the large graphs use up the sparse ones. The other eight take 16 graphs, and 184 are
  // left, 11 a pack: 10 packs and 17.
  const LowerBound bound = BySupply(histogram, limits);
  EXPECT_EQ(bound.packs, 27);
  EXPECT_EQ(bound.kind, LowerBoundKind::kLiftedVolume);
  EXPECT_EQ(bound.component, 0);
  // If each had all the sparse ones.
  EXPECT_EQ(ByLift(histogram, limits), 21);
}

TEST(SupplyBoundTest, NothingWithoutLargeGraphsOrSteps) {
  const Limits limits = LimitsOf({10, 10, kUnlimited});
  EXPECT_EQ(BySupply(SizeHistogram(2), limits).packs, 0);
  EXPECT_EQ(BySupply(HistogramOf(2, {{{5, 5}, 9}}), limits).packs, 0);
  EXPECT_EQ(BySupply(HistogramOf(2, {{{6, 2}, 9}}), limits).packs, 9);
  EXPECT_EQ(BySupply(HistogramOf(2, {{{6, 2}, 9}}), limits, 3).packs, 0);
  EXPECT_EQ(BySupply(HistogramOf(1, {{{6}, 9}}), LimitsOf({10, kUnlimited})).packs, 0);
}

// Others need the steps to make a plan.
TEST(SupplyBoundTest, ABoundLeavesMostSteps) {
  const SizeHistogram histogram =
      HistogramOf(2, {{{100, 9000}, 10}, {{90, 100}, 20}, {{90, 400}, 200}, {{900, 100}, 3}});
  const PackingProblem problem(histogram, LimitsOf({1000, 10'000, kUnlimited}));
  WorkBudget ample(kAmpleSteps);
  const uint64_t most = ComputeSupplyBound(problem, ample).packs;
  Fingerprint bounds;
  for (uint64_t steps = 0; steps < 5000; ++steps) {
    WorkBudget budget(steps);
    const uint64_t packs = ComputeSupplyBound(problem, budget).packs;
    ASSERT_LE(packs, most);
    // An eighth for each of two pairs.
    ASSERT_GE(budget.remaining(), steps * 49 / 64);
    if (budget.remaining() + 2 * 74 * problem.num_items() == steps) {
      ASSERT_EQ(packs, most);
    }
    bounds.Add(packs);
    bounds.Add(budget.remaining());
  }
  EXPECT_EQ(bounds.value(), 7912306904472480477U);
}

TEST(SupplyBoundTest, LargeNumbersDoNotOverflow) {
  constexpr uint64_t kMany = uint64_t{1} << 30;
  EXPECT_EQ(BySupply(HistogramOf(2, {{{UINT32_MAX, UINT32_MAX}, kMany}, {{1, UINT32_MAX}, kMany}}),
                     LimitsOf({UINT32_MAX, UINT32_MAX, kUnlimited}))
                .packs,
            2 * kMany);
  EXPECT_EQ(BySupply(HistogramOf(2, {{{UINT32_MAX, 1}, kMany}, {{UINT32_MAX - 1, 2}, 3}}),
                     LimitsOf({uint64_t{1} << 32, 1 << 20, kUnlimited}))
                .packs,
            kMany + 3);
}

TEST(SupplyBoundTest, NeverAboveTheOptimum) {
  Fingerprint everywhere;
  int bounds = 0;
  int tight = 0;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_components = 4,
                                     .max_distinct = 8,
                                     .max_count = 1,
                                     .max_capacity = random.Below(2) == 0 ? 12u : 50'000u});
    const LowerBound by_supply = BySupply(histogram, limits);
    const uint64_t bound = by_supply.packs;
    if (bound == 0) continue;
    everywhere.Add(bound);
    everywhere.Add(by_supply.component);
    const uint64_t optimum = OptimalPacks(histogram, limits);
    ASSERT_LE(bound, optimum);
    ++bounds;
    tight += bound == optimum;
  }
  EXPECT_GT(bounds, 1000);
  EXPECT_GT(tight, bounds / 2) << tight << " of " << bounds;
  EXPECT_EQ(everywhere.value(), 3694754017111592007U);
}

// Worlds made for it: a few dense graphs, and beside them room for sparse ones.
TEST(SupplyBoundTest, NeverAboveTheOptimumOfDenseAndSparseGraphs) {
  Fingerprint everywhere;
  int better = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SizeHistogram histogram(2);
    for (uint64_t i = random.Between(1, 4); i != 0; --i) {
      histogram
          .Add(std::vector<uint32_t>{static_cast<uint32_t>(random.Between(0, 20)),
                                     static_cast<uint32_t>(random.Between(51, 100))})
          .IgnoreError();
    }
    for (uint64_t i = random.Between(1, 6); i != 0; --i) {
      histogram
          .Add(std::vector<uint32_t>{static_cast<uint32_t>(random.Between(1, 60)),
                                     static_cast<uint32_t>(random.Between(0, 50))})
          .IgnoreError();
    }
    const Limits limits = LimitsOf({100, 100, kUnlimited});
    const LowerBound by_supply = BySupply(histogram, limits);
    const uint64_t bound = by_supply.packs;
    everywhere.Add(bound);
    everywhere.Add(by_supply.component);
    ASSERT_LE(bound, OptimalPacks(histogram, limits));
    better += bound > ByLift(histogram, limits);
  }
  EXPECT_GT(better, 0);
  EXPECT_EQ(everywhere.value(), 2657042249375726337U);
}

}  // namespace
}  // namespace packhouse
