// ComputeLiftedVolumeBound; the other bounds are in lower_bound_test.cc.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/pattern_pricing.h"
#include "tests/planning/exact_solver.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/shared_data.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

constexpr uint64_t kAmple = uint64_t{1} << 50;

LowerBound Lifted(const PackingProblem& problem, VectorLevel level = BestVectorLevel()) {
  WorkBudget budget(kAmple);
  return ComputeLiftedVolumeBound(problem, level, budget);
}
LowerBound Lifted(const SizeHistogram& histogram, const Limits& limits) {
  return Lifted(PackingProblem(histogram, limits));
}

// The volume bound of the components that bind, capacities already floored.
uint64_t VolumeOf(const PackingProblem& problem) {
  uint64_t packs = 0;
  for (size_t k = 0; k < problem.num_components(); ++k) {
    const uint64_t capacity = problem.capacity(k);
    packs = std::max(packs, problem.total(k) / capacity + (problem.total(k) % capacity != 0));
  }
  return packs;
}

struct Tally {
  int worlds = 0;
  int by_ratios = 0;
  int lifts = 0;
  int tight = 0;
  Fingerprint bounds;
};

// volume <= lifted <= optimum.
void CheckAgainstOptimum(const SizeHistogram& histogram, const Limits& limits, Tally& tally) {
  const PackingProblem problem(histogram, limits);
  const LowerBound lifted = Lifted(problem);
  const uint64_t volume = VolumeOf(problem);
  const uint64_t optimum = OptimalPacks(histogram, limits);
  EXPECT_GE(lifted.packs, volume);
  EXPECT_LE(lifted.packs, optimum);
  EXPECT_EQ(lifted.kind, LowerBoundKind::kLiftedVolume);
  if (problem.num_components() == 0) return;
  EXPECT_TRUE(limits.has_limit(lifted.component));
  tally.bounds.Add(lifted.packs);
  tally.bounds.Add(lifted.component);
  ++tally.worlds;
  tally.by_ratios += PatternPricing::NumRooms(problem) > 1'000'000;
  tally.lifts += lifted.packs > volume;
  tally.tight += lifted.packs == optimum;
}

TEST(LiftedBoundTest, NeverAboveTheOptimumNorBelowTheVolume) {
  Tally tally;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(
        random, {.max_components = 4, .max_distinct = 8, .max_count = 1, .max_capacity = 12});
    CheckAgainstOptimum(histogram, limits, tally);
    if (HasFailure()) return;
  }
  // Measured: 450 of 8498 worlds in which anything binds; the optimum in 8462 of them.
  EXPECT_GT(tally.lifts, 400);
  EXPECT_GE(tally.tight, 0.99 * tally.worlds) << tally.tight << " of " << tally.worlds;
  EXPECT_EQ(tally.bounds.value(), 7484886671523970955U);
}

// Capacities too large for tables of all rooms.
TEST(LiftedBoundTest, NeverAboveTheOptimumNorBelowTheVolumeByRatios) {
  Tally tally;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(
        random, {.max_components = 4,
                 .max_distinct = 8,
                 .max_count = 1,
                 .max_capacity = random.Below(2) == 0 ? 4'000'000'000u : 50'000u});
    CheckAgainstOptimum(histogram, limits, tally);
    if (HasFailure()) return;
  }
  EXPECT_GT(tally.by_ratios, 2500);
  EXPECT_GT(tally.lifts, 200);
  EXPECT_EQ(tally.bounds.value(), 115192499049336551U);
}

// The same world in another scale has the same bound, or a weaker one where ratios replace tables.
TEST(LiftedBoundTest, RatiosAreNeverStrongerThanTables) {
  int lifts_by_ratios = 0;
  for (uint64_t seed = 0; seed < 8000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    auto [histogram, limits] = RandomPlanningWorld(
        random, {.max_components = 3, .max_distinct = 20, .max_count = 30, .max_capacity = 30});
    const PackingProblem problem(histogram, limits);
    if (problem.num_components() < 2 || limits.graphs() != kUnlimited) continue;
    // One more graph, of size 1, keeps the common divisor at 1.
    constexpr uint32_t kScale = 1'000'003;
    SizeHistogram scaled(histogram.num_components());
    for (size_t row = 0; row < histogram.num_distinct(); ++row) {
      std::vector<uint32_t> tuple(histogram.tuple(row).begin(), histogram.tuple(row).end());
      for (uint32_t& size : tuple) size *= kScale;
      ASSERT_THAT(scaled.Add(tuple, histogram.count(row)), IsOk());
    }
    ASSERT_THAT(scaled.Add(std::vector<uint32_t>(histogram.num_components(), 1)), IsOk());
    std::vector<uint64_t> capacities(limits.capacities().begin(), limits.capacities().end());
    for (uint64_t& capacity : capacities) {
      if (capacity != kUnlimited) capacity *= kScale;
    }
    const uint64_t by_ratios = Lifted(scaled, LimitsOf(std::move(capacities))).packs;
    EXPECT_LE(by_ratios, Lifted(problem).packs + 1) << "the new graph may add one";
    lifts_by_ratios += by_ratios > VolumeOf(problem) + 1;
    if (HasFailure()) return;
  }
  EXPECT_GT(lifts_by_ratios, 60);
}

// 5 graphs a pack; a giant takes all nodes, and with them the places of 4 others.
TEST(LiftedBoundTest, GiantsTakeThePlacesOfOthers) {
  const Limits limits = LimitsOf({100, 5});
  const auto packs_with = [&](uint64_t giants) {
    const LowerBound bound = Lifted(HistogramOf(1, {{{100}, giants}, {{1}, 10}}), limits);
    EXPECT_EQ(bound.component, 1);
    return bound.packs;
  };
  EXPECT_EQ(packs_with(1), 3);
  EXPECT_EQ(packs_with(2), 4);  // Volume: 3 by nodes, 3 by graphs.
  EXPECT_EQ(packs_with(7), 9);
  // With one node to spare, one small graph is beside each giant.
  const SizeHistogram nearly = HistogramOf(1, {{{99}, 3}, {{1}, 10}});
  EXPECT_EQ(Lifted(nearly, limits).packs, 5);  // 13 + 3 * 3 places, 5 a pack.
}

// Sizes above the half of which nothing else makes a whole: 6 of 10 with nothing below 5.
TEST(LiftedBoundTest, RoomThatNothingFills) {
  const SizeHistogram histogram = HistogramOf(1, {{{6}, 4}, {{5}, 1}});
  const LowerBound bound = Lifted(histogram, LimitsOf({10, kUnlimited}));
  EXPECT_EQ(bound.packs, 5);
  EXPECT_EQ(bound.kind, LowerBoundKind::kLiftedVolume);
  EXPECT_EQ(bound.component, 0);
}

// The component is that of the limits, not of what is left of them.
TEST(LiftedBoundTest, NamesTheComponentOfTheHistogram) {
  const SizeHistogram histogram = HistogramOf(3, {{{1, 1, 6}, 4}, {{1, 1, 5}, 1}});
  EXPECT_EQ(Lifted(histogram, LimitsOf({kUnlimited, 5, 10, kUnlimited})).component, 2);
}

TEST(LiftedBoundTest, EachLevelGivesTheSame) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_components = 3});
    const PackingProblem problem(histogram, limits);
    WorkBudget plain_budget(kAmple);
    const LowerBound plain = ComputeLiftedVolumeBound(problem, VectorLevel::kPlain, plain_budget);
    for (const VectorLevel level : VectorLevelsHere()) {
      WorkBudget budget(kAmple);
      const LowerBound bound = ComputeLiftedVolumeBound(problem, level, budget);
      EXPECT_EQ(bound.packs, plain.packs);
      EXPECT_EQ(bound.component, plain.component);
      EXPECT_EQ(budget.remaining(), plain_budget.remaining());
    }
    if (HasFailure()) return;
  }
}

TEST(LiftedBoundTest, NoBoundWithoutBudget) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    const uint64_t packs = Lifted(problem).packs;
    WorkBudget nothing(0);
    EXPECT_EQ(ComputeLiftedVolumeBound(problem, BestVectorLevel(), nothing).packs, 0);
    WorkBudget budget(random.Below(10'000));
    EXPECT_THAT(ComputeLiftedVolumeBound(problem, BestVectorLevel(), budget).packs,
                testing::AnyOf(0, packs));
    if (HasFailure()) return;
  }
}

// Whole ceilings at any size; capacities beyond 2^31 are no reason to leave a component out.
TEST(LiftedBoundTest, HugeNumbers) {
  constexpr uint64_t kMany = uint64_t{1} << 59;
  EXPECT_EQ(Lifted(HistogramOf(1, {{{1}, kMany}}), LimitsOf({3, kUnlimited})).packs, kMany / 3 + 1);
  EXPECT_EQ(Lifted(HistogramOf(1, {{{6}, kMany}, {{5}, 1}}), LimitsOf({10, kUnlimited})).packs,
            kMany + 1);
  EXPECT_EQ(Lifted(HistogramOf(1, {{{UINT32_MAX}, 100}, {{1}, 1}}),
                   LimitsOf({uint64_t{UINT32_MAX} * 7, kUnlimited}))
                .packs,
            15);
  EXPECT_EQ(Lifted(HistogramOf(1, {{{16}, kMany}, {{15}, 1}}),
                   LimitsOf({(uint64_t{1} << 62) + 8, kUnlimited}))
                .packs,
            2);
  EXPECT_EQ(Lifted(HistogramOf(1, {{{1u << 31}, 6}, {{UINT32_MAX - 2}, 1}}),
                   LimitsOf({UINT32_MAX, kUnlimited}))
                .packs,
            7)
      << "2^31 twice is one row too much";
}

TEST(LiftedBoundTest, NothingBinds) {
  EXPECT_EQ(Lifted(SizeHistogram(2), LimitsOf({10, 10, 2})).packs, 0);
  EXPECT_EQ(Lifted(HistogramOf(1, {{{2}, 3}}), LimitsOf({6, kUnlimited})).packs, 0);
}

// What the volume does not see on real molecules.
TEST(LiftedBoundTest, Molecules) {
  const auto histogram = ReadHistogram("molhiv_train");
  if (!histogram) GTEST_SKIP() << "no hist/molhiv_train.csv in " << SharedData();
  const Limits limits = LimitsOf({222, 502, 256});
  EXPECT_LT(ComputeVolumeBound(*histogram, limits).packs, 3744);
  EXPECT_EQ(Lifted(*histogram, limits).packs, 3744);
}

}  // namespace
}  // namespace packhouse
