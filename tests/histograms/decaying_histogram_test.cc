#include "service/algorithms/histograms/decaying_histogram.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

constexpr absl::Duration kHalfLife = absl::Hours(1);

absl::Time After(double half_lives) { return absl::UnixEpoch() + half_lives * kHalfLife; }

DecayingHistogram Empty(size_t num_components = 1) {
  return DecayingHistogram(num_components, kHalfLife, absl::UnixEpoch());
}

uint64_t CountAt(const DecayingHistogram& histogram, absl::Span<const uint32_t> tuple,
                 absl::Time now) {
  const absl::StatusOr<SizeHistogram> snapshot = histogram.Snapshot(now);
  EXPECT_THAT(snapshot, IsOk());
  return snapshot.ok() ? snapshot->CountOf(tuple) : 0;
}

TEST(DecayingHistogramTest, HalfAfterEachHalfLife) {
  DecayingHistogram histogram = Empty();
  ASSERT_THAT(histogram.Add({7}, 1024, After(0)), IsOk());
  for (int half_lives = 0; half_lives <= 10; ++half_lives) {
    const uint64_t expected = uint64_t{1024} >> half_lives;
    EXPECT_EQ(CountAt(histogram, {7}, After(half_lives)), expected);
    EXPECT_EQ(histogram.num_graphs(After(half_lives)), expected);
  }
}

TEST(DecayingHistogramTest, AFreshObservationCountsFullyWheneverItComes) {
  DecayingHistogram histogram = Empty();
  for (int half_lives = 0; half_lives < 200; half_lives += 7) {
    ASSERT_THAT(histogram.Add({1}, 1'000'000, After(half_lives)), IsOk());
    const uint64_t count = CountAt(histogram, {1}, After(half_lives));
    EXPECT_GE(count, 1'000'000);
    EXPECT_LE(count, 1'008'000);  // Seven half-lives leave 1/128 of the one before, and so on.
  }
}

// Forward decay is the same as the sum of count * 2^-(age / half-life), whenever each came.
TEST(DecayingHistogramTest, EqualsDirectSums) {
  struct Observation {
    std::vector<uint32_t> tuple;
    uint64_t count;
    double at;
  };
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Below(4);
    DecayingHistogram histogram = Empty(l);
    std::vector<Observation> observations;
    double at = 0;
    // Up to 100 half-lives in all, so that the landmark moves.
    for (int i = 0; i < 100; ++i) {
      at += static_cast<double>(random.Below(1000)) / 1000;
      std::vector<uint32_t> tuple(l);
      for (uint32_t& size : tuple) size = static_cast<uint32_t>(random.Below(3));
      const uint64_t count = random.Below(100'000);
      ASSERT_THAT(histogram.Add(tuple, count, After(at)), IsOk());
      observations.push_back({tuple, count, at});
    }
    const double now = at + static_cast<double>(random.Below(4000)) / 1000;
    std::map<std::vector<uint32_t>, double> expected;
    double graphs = 0;
    for (const Observation& o : observations) {
      const double weight = static_cast<double>(o.count) * std::exp2(o.at - now);
      expected[o.tuple] += weight;
      graphs += weight;
    }
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram snapshot, histogram.Snapshot(After(now)));
    for (const auto& [tuple, weight] : expected) {
      EXPECT_NEAR(static_cast<double>(snapshot.CountOf(tuple)), weight, 0.501);
    }
    EXPECT_NEAR(static_cast<double>(histogram.num_graphs(After(now))), graphs, 0.501);
    EXPECT_LE(snapshot.num_distinct(), expected.size());
    if (HasFailure()) return;
  }
}

TEST(DecayingHistogramTest, ManyHalfLivesDoNotOverflow) {
  DecayingHistogram histogram = Empty();
  for (int round = 0; round < 50; ++round) {
    ASSERT_THAT(histogram.Add({1}, uint64_t{1} << 40, After(31.0 * round)), IsOk());
  }
  const uint64_t count = CountAt(histogram, {1}, After(31.0 * 49));
  EXPECT_NEAR(static_cast<double>(count), std::exp2(40) * (1 + std::exp2(-31)), 1.0);
  EXPECT_EQ(histogram.num_graphs(After(31.0 * 49 + 10'000)), 0);
  EXPECT_EQ(CountAt(histogram, {1}, absl::InfiniteFuture()), 0);
}

TEST(DecayingHistogramTest, TimeDoesNotGoBackwards) {
  DecayingHistogram histogram = Empty();
  ASSERT_THAT(histogram.Add({1}, 1000, After(5)), IsOk());
  // Counts as if it came at 5, and is read as of 5.
  ASSERT_THAT(histogram.Add({1}, 1000, After(3)), IsOk());
  EXPECT_EQ(CountAt(histogram, {1}, After(0)), 2000);
  EXPECT_EQ(histogram.num_graphs(After(-100)), 2000);
  EXPECT_EQ(CountAt(histogram, {1}, After(6)), 1000);
  // Reading ahead does not move it.
  ASSERT_THAT(histogram.Add({1}, 1000, After(5)), IsOk());
  EXPECT_EQ(CountAt(histogram, {1}, After(5)), 3000);
}

TEST(DecayingHistogramTest, WhatRoundsToZeroIsAbsentFromSnapshots) {
  DecayingHistogram histogram = Empty(2);
  ASSERT_THAT(histogram.Add({{1, 1}}, 1, After(0)), IsOk());
  ASSERT_THAT(histogram.Add({{2, 2}}, 100, After(0)), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram snapshot, histogram.Snapshot(After(2)));
  EXPECT_EQ(snapshot.num_distinct(), 1);
  EXPECT_EQ(snapshot.CountOf({{2, 2}}), 25);
  EXPECT_EQ(histogram.num_distinct(), 2);
}

TEST(DecayingHistogramTest, ForgottenTuplesAreDropped) {
  DecayingHistogram histogram = Empty();
  ASSERT_THAT(histogram.Add({1}, 10, After(0)), IsOk());
  ASSERT_THAT(histogram.Add({2}, uint64_t{1} << 40, After(0)), IsOk());
  EXPECT_TRUE(histogram.Contains({1}));
  EXPECT_FALSE(histogram.Contains({3}));
  // The landmark moves at the first change after 32 half-lives.
  ASSERT_THAT(histogram.Add({3}, 1, After(33)), IsOk());
  EXPECT_FALSE(histogram.Contains({1}));
  EXPECT_TRUE(histogram.Contains({2}));
  EXPECT_TRUE(histogram.Contains({3}));
  EXPECT_EQ(histogram.num_distinct(), 2);
  EXPECT_EQ(CountAt(histogram, {2}, After(33)), 128);
  EXPECT_EQ(histogram.num_graphs(After(33)), 129);
}

// A caller that bounds the number of sizes must be able to make room without adding a size.
TEST(DecayingHistogramTest, ForgettingNeedsNoObservation) {
  DecayingHistogram histogram = Empty();
  ASSERT_THAT(histogram.Add({1}, 10, After(0)), IsOk());
  histogram.Advance(After(31));
  EXPECT_EQ(histogram.num_distinct(), 1);
  histogram.Advance(After(33));
  EXPECT_EQ(histogram.num_distinct(), 0);
  EXPECT_EQ(histogram.num_graphs(After(33)), 0);
}

// What would be forgotten is told without forgetting it, whenever one asks.
TEST(DecayingHistogramTest, WhatIsLeftIsToldBeforehand) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    DecayingHistogram histogram = Empty(2);
    for (int i = 0; i < 20; ++i) {
      const std::vector<uint32_t> tuple = {static_cast<uint32_t>(random.Below(4)),
                                           static_cast<uint32_t>(random.Below(4))};
      const uint64_t count = uint64_t{1} << random.Below(50);
      ASSERT_THAT(histogram.Add(tuple, count, After(i)), IsOk());
    }
    for (const double half_lives : {0.0, 31.5, 32.0, 40.0, 55.0, 100.0}) {
      const absl::Time now = After(half_lives);
      DecayingHistogram advanced = histogram;
      advanced.Advance(now);
      EXPECT_EQ(histogram.NumDistinctAt(now), advanced.num_distinct()) << half_lives;
      for (uint32_t nodes = 0; nodes < 4; ++nodes) {
        for (uint32_t edges = 0; edges < 5; ++edges) {
          EXPECT_EQ(histogram.ContainsAt({nodes, edges}, now), advanced.Contains({nodes, edges}))
              << half_lives;
        }
      }
    }
  }
}

// Less than 1/1024 of a graph, after 32 half-lives.
TEST(DecayingHistogramTest, TheBoundsOfForgetting) {
  DecayingHistogram histogram = Empty();
  ASSERT_THAT(histogram.Add({1}, uint64_t{1} << 22, After(0)), IsOk());
  ASSERT_THAT(histogram.Add({2}, (uint64_t{1} << 22) - 1, After(0)), IsOk());
  ASSERT_THAT(histogram.Add({3}, 0, After(0)), IsOk());
  histogram.Advance(After(32) - absl::Nanoseconds(1));
  EXPECT_EQ(histogram.num_distinct(), 2);
  EXPECT_EQ(histogram.landmark(), After(0));
  histogram.Advance(After(32));
  EXPECT_EQ(histogram.landmark(), After(32));
  EXPECT_EQ(histogram.num_distinct(), 1);
  EXPECT_TRUE(histogram.Contains({1}));
  EXPECT_EQ(histogram.total_weight(), 1.0 / 1024);
}

TEST(DecayingHistogramTest, TablesAndHistogramsCountLikeSingleGraphs) {
  DecayingHistogram by_table = Empty(2);
  DecayingHistogram by_merge = Empty(2);
  DecayingHistogram one_by_one = Empty(2);
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable table,
                          SizeTable::WithConsecutiveIds(3, 2, {1, 2, 0, 0, 1, 2}, 0));
  SizeHistogram addend(2);
  ASSERT_THAT(addend.AddTable(table), IsOk());
  for (const double at : {0.0, 0.5, 40.0}) {
    ASSERT_THAT(by_table.AddTable(table, After(at)), IsOk());
    ASSERT_THAT(by_merge.Merge(addend, After(at)), IsOk());
    for (size_t i = 0; i < 3; ++i) {
      ASSERT_THAT(one_by_one.Add(table.tuple(i), 1, After(at)), IsOk());
    }
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram expected, one_by_one.Snapshot(After(at)));
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram table_snapshot, by_table.Snapshot(After(at)));
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram merge_snapshot, by_merge.Snapshot(After(at)));
    EXPECT_EQ(table_snapshot, expected);
    EXPECT_EQ(merge_snapshot, expected);
  }
}

TEST(DecayingHistogramTest, OtherNumbersOfComponentsAreInvalid) {
  DecayingHistogram histogram = Empty(2);
  const auto invalid = [](const char* message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, message);
  };
  EXPECT_THAT(histogram.Add({1}, 1, After(0)), invalid("histogram: 1 components, expected 2"));
  EXPECT_THAT(histogram.Add({1}, 0, After(0)), invalid("histogram: 1 components, expected 2"));
  EXPECT_THAT(
      histogram.AddTable(SizeTable::WithConsecutiveIds(1, 3, {1, 2, 3}, 0).value(), After(0)),
      invalid("histogram: 3 components, expected 2"));
  SizeHistogram addend(1);
  ASSERT_THAT(addend.Add({1}), IsOk());
  EXPECT_THAT(histogram.Merge(addend, After(0)), invalid("histogram: 1 components, expected 2"));
  EXPECT_EQ(histogram.num_distinct(), 0);
  EXPECT_EQ(histogram.num_graphs(After(0)), 0);
}

TEST(DecayingHistogramTest, SumsBeyond64BitsAreRefusedOnReading) {
  DecayingHistogram histogram = Empty();
  ASSERT_THAT(histogram.Add({0}, UINT64_MAX, After(0)), IsOk());
  ASSERT_THAT(histogram.Add({1}, UINT64_MAX, After(0)), IsOk());
  EXPECT_THAT(histogram.Snapshot(After(0)),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::HasSubstr("2^64 - 1")));
  EXPECT_THAT(histogram.Snapshot(After(2)), IsOk());
}

// Of a damaged file: no size has less than some of a graph.
TEST(DecayingHistogramTest, WeightsThatAreNoneAreNotRestored) {
  DecayingHistogram histogram = Empty();
  for (const double weight : {0.0, -1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    EXPECT_THAT(histogram.RestoreRow({7}, weight),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("a weight of")));
  }
  EXPECT_THAT(histogram.RestoreRow({7}, 1e-300), IsOk());
  const auto is_invalid = [](const char* part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr(part));
  };
  EXPECT_THAT(histogram.RestoreRow({7}, 1), is_invalid("a size that is there already"));
  EXPECT_THAT(histogram.RestoreRow({{7, 8}}, 1), is_invalid("2 components, expected 1"));
  EXPECT_EQ(histogram.num_distinct(), 1);
  for (const double total : {-1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    EXPECT_THAT(histogram.RestoreTotal(After(1), total), is_invalid("in all"));
  }
  EXPECT_THAT(histogram.RestoreTotal(After(1), 0), IsOk());
  EXPECT_THAT(histogram.RestoreTotal(After(0.5), 5), IsOk());
  EXPECT_EQ(histogram.latest(), After(1));
  EXPECT_EQ(histogram.total_weight(), 5);
}

}  // namespace
}  // namespace packhouse
