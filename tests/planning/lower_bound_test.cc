#include "service/algorithms/planning/lower_bound.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/exact_solver.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/shared_data.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

void ExpectBound(const LowerBound& bound, uint64_t packs, size_t component) {
  EXPECT_EQ(bound.packs, packs);
  EXPECT_EQ(bound.component, component);
}

TEST(VolumeBoundTest, TheComponentThatNeedsMostPacksGivesIt) {
  const SizeHistogram histogram = HistogramOf(2, {{{5, 1}, 10}, {{1, 7}, 1}});  // Sums 51, 17.
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({10, 10, kUnlimited})), 6, 0);
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({51, 7, kUnlimited})), 3, 1);
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({51, 17, 2})), 6, 2);
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({kUnlimited, kUnlimited, 4})), 3, 2);
}

TEST(VolumeBoundTest, TheFirstComponentInATie) {
  const SizeHistogram histogram = HistogramOf(2, {{{5, 5}, 10}});
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({10, 10, 2})), 5, 0);
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({50, 10, 2})), 5, 1);
}

// A component without a limit never gives a bound, however small that is.
TEST(VolumeBoundTest, OnePackIsGivenByAComponentThatHasALimit) {
  const SizeHistogram histogram = HistogramOf(2, {{{5, 5}, 2}});
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({10, 10, 2})), 1, 0);
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({kUnlimited, 10, 2})), 1, 1);
  ExpectBound(ComputeVolumeBound(histogram, LimitsOf({kUnlimited, kUnlimited, 2})), 1, 2);
}

// Graphs need a pack though nothing in them does, whichever components have limits.
TEST(VolumeBoundTest, GraphsWithoutRowsNeedOnePack) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({0, 0}, 7), IsOk());
  for (const std::vector<uint64_t>& capacities : std::vector<std::vector<uint64_t>>{
           {5, kUnlimited, kUnlimited}, {kUnlimited, 5, kUnlimited}, {5, 5, kUnlimited}}) {
    PH_ASSERT_OK_AND_ASSIGN(const Limits limits, Limits::Create(capacities));
    const LowerBound bound = ComputeVolumeBound(histogram, limits);
    EXPECT_EQ(bound.packs, 1);
    EXPECT_TRUE(limits.has_limit(bound.component));
  }
}

TEST(VolumeBoundTest, EdgeCases) {
  EXPECT_EQ(ComputeVolumeBound(SizeHistogram(2), LimitsOf({10, 10, 2})).packs, 0);
  // Empty graphs need a pack, too.
  EXPECT_EQ(ComputeVolumeBound(HistogramOf(2, {{{0, 0}, 9}}), LimitsOf({10, 10, kUnlimited})).packs,
            1);
  EXPECT_EQ(ComputeVolumeBound(HistogramOf(2, {{{0, 0}, 9}}), LimitsOf({10, 10, 2})).packs, 5);
  EXPECT_EQ(ComputeVolumeBound(HistogramOf(0, {{{}, 9}}), LimitsOf({4})).packs, 3);
  // No ceiling overflows.
  EXPECT_EQ(
      ComputeVolumeBound(HistogramOf(1, {{{1}, UINT64_MAX}}), LimitsOf({2, kUnlimited})).packs,
      uint64_t{1} << 63);
}

// Sizes that are all multiples of 3 cannot fill a capacity of 11 beyond 9.
TEST(VolumeBoundTest, CapacitiesActAsMultiplesOfTheCommonDivisor) {
  const SizeHistogram histogram = HistogramOf(1, {{{6}, 10}, {{3}, 10}, {{0}, 5}});  // Sum 90.
  for (const uint64_t capacity : {9, 10, 11}) {
    EXPECT_EQ(ComputeVolumeBound(histogram, LimitsOf({capacity, kUnlimited})).packs, 10);
  }
  EXPECT_EQ(ComputeVolumeBound(histogram, LimitsOf({12, kUnlimited})).packs, 8);
  SizeHistogram odd_one = histogram;
  ASSERT_THAT(odd_one.Add({1}), IsOk());
  EXPECT_EQ(ComputeVolumeBound(odd_one, LimitsOf({11, kUnlimited})).packs, 9);
}

TEST(VolumeBoundTest, NeverAboveTheOptimum) {
  int tight = 0;
  constexpr int kWorlds = 1000;
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(
        random, {.max_components = 4, .max_distinct = 7, .max_count = 1, .max_capacity = 12});
    const uint64_t bound = ComputeVolumeBound(histogram, limits).packs;
    const uint64_t optimum = OptimalPacks(histogram, limits);
    EXPECT_LE(bound, optimum);
    tight += bound == optimum;
  }
  EXPECT_GE(tight, kWorlds / 2) << tight;
}

// Molecules have an even number of directed edges.
TEST(VolumeBoundTest, MoleculesHaveEvenEdges) {
  const std::optional<SizeHistogram> histogram = ReadHistogram("molpcba_train");
  if (!histogram) GTEST_SKIP() << "no hist/molpcba_train.csv in " << SharedData();
  EXPECT_EQ(ComputeVolumeBound(*histogram, LimitsOf({512, 1105, 256})).packs, 17588);
  EXPECT_EQ(ComputeVolumeBound(*histogram, LimitsOf({512, 1104, 256})).packs, 17588);
}

}  // namespace
}  // namespace packhouse
