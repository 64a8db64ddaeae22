#include "service/algorithms/histograms/drift_detector.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

// In [0, 1).
double Uniform(Random& random) { return static_cast<double>(random.Next() >> 11) * 0x1p-53; }

// About normal: 12 uniform numbers have variance 1.
double Normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += Uniform(random);
  return sum;
}

// A graph of `scale` times 25 nodes in the median, and about twice as many edges.
std::vector<uint32_t> Drawn(Random& random, double scale, double spread) {
  const double nodes = scale * 25 * std::exp(spread * Normal(random));
  return {static_cast<uint32_t>(nodes), static_cast<uint32_t>(nodes * (1.8 + Uniform(random)))};
}

TEST(RankCountsTest, CountsAsASumDoes) {
  constexpr size_t kValues = 77;
  RankCounts ranks(kValues);
  std::vector<uint64_t> counts(kValues);
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const size_t value = random.Below(kValues);
    const uint64_t count = random.Below(1000);
    ranks.Add(value, count);
    counts[value] += count;
    uint64_t up_to = 0;
    for (size_t k = 0; k < kValues; ++k) {
      up_to += counts[k];
      ASSERT_EQ(ranks.CountOf(k), counts[k]);
      ASSERT_EQ(ranks.CountUpTo(k), up_to);
    }
  }
}

// At most one stream in a thousand has an alarm, and it does not matter how small the reference is.
TEST(DriftDetectorTest, NothingIsFoundWhereNothingChanges) {
  struct World {
    size_t reference;
    size_t graphs;
    int streams;
  };
  for (const World& world : {World{0, 500, 40}, World{10, 500, 40}, World{2000, 30'000, 1}}) {
    for (int stream = 0; stream < world.streams; ++stream) {
      Random random(static_cast<uint64_t>(stream));
      DriftDetector detector(2);
      for (size_t i = 0; i < world.reference; ++i) detector.AddReference(Drawn(random, 1, 0.5));
      for (size_t i = 0; i < world.graphs; ++i) {
        ASSERT_FALSE(detector.Observe(Drawn(random, 1, 0.5)))
            << world.reference << " graphs, stream " << stream << ", graph " << i;
      }
    }
  }
}

TEST(DriftDetectorTest, AShiftOfFivePercentIsFoundWithinTwentyThousandGraphs) {
  // One stream in a thousand may have an alarm before its shift: two of fifteen are a defect.
  int false_alarms = 0;
  for (const double spread : {0.0, 0.2, 0.5}) {
    for (uint64_t stream = 0; stream < 5; ++stream) {
      Random random(stream);
      DriftDetector detector(2);
      for (int i = 0; i < 2000; ++i) detector.AddReference(Drawn(random, 1, spread));
      bool alarm = false;
      for (int i = 0; i < 20'000 && !alarm; ++i) alarm = detector.Observe(Drawn(random, 1, spread));
      if (alarm) {
        ++false_alarms;
        continue;
      }
      int graphs = 1;
      const double scale = stream % 2 == 0 ? 1.05 : 0.95;
      while (graphs <= 20'000 && !detector.Observe(Drawn(random, scale, spread))) ++graphs;
      EXPECT_LE(graphs, 20'000) << spread;
      EXPECT_EQ(detector.num_observed(), 20'000U + static_cast<uint64_t>(graphs));
      EXPECT_LT(detector.num_before_change(), detector.num_observed());
      EXPECT_GT(detector.num_before_change(), 15'000U) << spread;
    }
  }
  EXPECT_LE(false_alarms, 1);
}

// Graphs have as many nodes and as many edges as before, but no longer together.
TEST(DriftDetectorTest, AChangeOfTheRatioAloneIsFound) {
  Random random(3);
  DriftDetector detector(2);
  const auto draw = [&](bool together) {
    const auto nodes = static_cast<uint32_t>(random.Between(20, 40));
    const auto edges = static_cast<uint32_t>(random.Between(20, 40));
    return std::vector<uint32_t>{nodes, together ? nodes : edges};
  };
  for (int i = 0; i < 2000; ++i) detector.AddReference(draw(true));
  for (int i = 0; i < 2000; ++i) ASSERT_FALSE(detector.Observe(draw(true)));
  int graphs = 1;
  while (graphs < 2000 && !detector.Observe(draw(false))) ++graphs;
  EXPECT_LT(graphs, 2000);
}

// A histogram is its graphs. And same graphs, same alarm, on every machine and in every build.
TEST(DriftDetectorTest, AlarmsAreTheseEverywhere) {
  Fingerprint alarms;
  for (uint64_t stream = 0; stream < 10; ++stream) {
    Random random(stream);
    const auto draw = [&random](uint64_t more) {
      const uint64_t nodes = random.Between(20, 40) + random.Below(1 + more);
      const uint64_t edges = 2 * nodes + random.Below(20);
      return std::vector<uint32_t>{static_cast<uint32_t>(nodes), static_cast<uint32_t>(edges)};
    };
    SizeHistogram histogram(2);
    DriftDetector one_by_one(2);
    DriftDetector together(2);
    for (int i = 0; i < 500; ++i) {
      const std::vector<uint32_t> tuple = draw(0);
      ASSERT_TRUE(histogram.Add(tuple).ok());
      one_by_one.AddReference(tuple);
    }
    together.AddReference(histogram);
    EXPECT_EQ(one_by_one.num_reference(), 500U);
    EXPECT_EQ(together.num_reference(), 500U);
    bool alarm = false;
    for (int i = 0; i < 5000 && !alarm; ++i) {
      const std::vector<uint32_t> tuple = draw(i < 700 ? 0 : stream + 3);
      alarm = one_by_one.Observe(tuple);
      ASSERT_EQ(together.Observe(tuple), alarm);
    }
    EXPECT_EQ(together.num_before_change(), one_by_one.num_before_change());
    alarms.Add(one_by_one.num_observed());
    alarms.Add(one_by_one.num_before_change());
  }
  EXPECT_EQ(alarms.value(), 14384595490836687118U);
}

TEST(DriftDetectorTest, TheLargestSizesHaveBins) {
  DriftDetector detector(3);
  for (int i = 0; i < 100; ++i) detector.AddReference({0, UINT32_MAX, 0});
  bool found = false;
  for (int i = 0; i < 1000 && !found; ++i) found = detector.Observe({UINT32_MAX, 0, 31});
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace packhouse
