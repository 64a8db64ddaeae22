#include "service/algorithms/planning/step_order.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fingerprint.h"

namespace packhouse {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using CostGroups = std::vector<BatchesOfRanks<uint64_t>>;

// A heavy tail, and some equal costs.
std::vector<uint64_t> Costs(size_t n, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<uint64_t> costs;
  for (size_t i = 0; i < n; ++i) {
    uint64_t cost = 100 + random.Below(50);
    while (random.Below(3) == 0) cost += cost / 2;
    costs.push_back(cost);
  }
  return costs;
}

std::vector<uint32_t> Alone(const std::vector<uint64_t>& costs, size_t num_ranks, uint64_t seed) {
  SeededRandom random(seed);
  return OrderByCost(CostGroups{{costs, num_ranks}}, random)[0];
}

double EfficiencyOf(const std::vector<uint64_t>& costs, const std::vector<uint32_t>& order,
                    size_t num_ranks) {
  std::vector<double> ordered;
  for (const uint32_t batch : order) ordered.push_back(static_cast<double>(costs[batch]));
  const BatchesOfRanks<double> group = {ordered, num_ranks};
  return StepEfficiency({&group, 1});
}

std::vector<uint32_t> Shuffled(size_t n, SeededRandom& random) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i + 1 < n; ++i) std::swap(order[i], order[i + random.Below(n - i)]);
  return order;
}

// Pearson's statistic of counts that should be alike, as a distance from its mean in standard
// deviations.
double ChiSquareDistance(const std::vector<uint64_t>& counts) {
  const double n = static_cast<double>(counts.size());
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  double statistic = 0;
  for (const uint64_t count : counts) {
    const double off = static_cast<double>(count) - sum / n;
    statistic += off * off / (sum / n);
  }
  return (statistic - (n - 1)) / std::sqrt(2 * (n - 1));
}

TEST(OrderByCostTest, EveryOrderIsAPermutation) {
  Fingerprint everywhere;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SeededRandom draw(seed);
    std::vector<std::vector<uint64_t>> costs;
    CostGroups groups;
    const size_t num_groups = 1 + draw.Below(3);
    for (size_t i = 0; i < num_groups; ++i) costs.push_back(Costs(draw.Below(90), seed + 7 * i));
    for (size_t i = 0; i < num_groups; ++i) groups.push_back({costs[i], 1 + draw.Below(12)});
    SeededRandom one(seed);
    SeededRandom other(seed);
    const auto orders = OrderByCost(groups, one);
    EXPECT_EQ(OrderByCost(groups, other), orders);
    ASSERT_EQ(orders.size(), num_groups);
    for (size_t i = 0; i < num_groups; ++i) {
      std::vector<uint32_t> sorted = orders[i];
      std::sort(sorted.begin(), sorted.end());
      std::vector<uint32_t> all(costs[i].size());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(sorted, all);
      everywhere.AddAll(orders[i]);
    }
  }
  EXPECT_EQ(everywhere.value(), 3338946181873351497U);
}

TEST(OrderByCostTest, NothingAndFewerThanRanks) {
  SeededRandom random(1);
  EXPECT_THAT(OrderByCost({}, random), IsEmpty());
  EXPECT_THAT(OrderByCost(CostGroups{{{}, 3}}, random), ElementsAre(IsEmpty()));
  const std::vector<uint64_t> one = {5};
  EXPECT_THAT(OrderByCost(CostGroups{{one, 3}}, random), ElementsAre(ElementsAre(0)));
  EXPECT_THAT(OrderByCost(CostGroups{{one, 1}, {{}, 2}}, random),
              ElementsAre(ElementsAre(0), IsEmpty()));
}

// Batches that come first are as many as are asked for, and what follows is as without them: whole
// steps of neighbours, and each batch is as likely to come first as another.
TEST(OrderByCostTest, TheFirstBatchesFillAStepOfOthers) {
  constexpr size_t kRanks = 5;
  const std::vector<uint64_t> costs = Costs(43, 3);
  for (size_t num_first = 0; num_first < kRanks; ++num_first) {
    SCOPED_TRACE(num_first);
    std::vector<uint64_t> came_first(costs.size());
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      SeededRandom random(seed);
      const auto order = OrderByCost(CostGroups{{costs, kRanks, num_first}}, random)[0];
      ASSERT_EQ(order.size(), costs.size());
      for (size_t i = 0; i < num_first; ++i) ++came_first[order[i]];
      // The costs of whole steps do not overlap.
      std::vector<std::pair<uint64_t, uint64_t>> steps;
      for (size_t at = num_first; at + kRanks <= costs.size(); at += kRanks) {
        std::vector<uint64_t> step;
        for (size_t i = at; i < at + kRanks; ++i) step.push_back(costs[order[i]]);
        const auto [least, most] = std::minmax_element(step.begin(), step.end());
        steps.emplace_back(*least, *most);
      }
      ASSERT_EQ(steps.size(), (costs.size() - num_first) / kRanks);
      std::sort(steps.begin(), steps.end());
      for (size_t i = 1; i < steps.size(); ++i) ASSERT_LE(steps[i - 1].second, steps[i].first);
    }
    if (num_first != 0) {
      EXPECT_LT(ChiSquareDistance(came_first), 5);
    }
  }
  SeededRandom random(1);
  EXPECT_EQ(OrderByCost(CostGroups{{{costs.data(), 3}, 9, 8}}, random)[0].size(), 3U);
}

// No batch that is outside of a whole step costs something between the step's cheapest and dearest,
// except for the last ones, which are neighbours themselves.
TEST(OrderByCostTest, BatchesOfAStepAreNeighbours) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const size_t num_ranks = 1 + seed % 13;
    const std::vector<uint64_t> costs = Costs(50 + seed * 3, seed);
    const std::vector<uint32_t> order = Alone(costs, num_ranks, seed);
    const size_t whole = costs.size() / num_ranks;
    for (size_t step = 0; step < whole; ++step) {
      const auto begin = order.begin() + static_cast<ptrdiff_t>(step * num_ranks);
      uint64_t least = costs[*begin];
      uint64_t most = least;
      for (size_t i = 0; i < num_ranks; ++i) {
        least = std::min(least, costs[begin[static_cast<ptrdiff_t>(i)]]);
        most = std::max(most, costs[begin[static_cast<ptrdiff_t>(i)]]);
      }
      for (size_t i = 0; i < whole * num_ranks; ++i) {
        if (i / num_ranks == step) continue;
        EXPECT_FALSE(costs[order[i]] > least && costs[order[i]] < most) << i;
      }
    }
  }
}

TEST(OrderByCostTest, GroupsShareStepsOfLikePlaces) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    // The second group's batches cost ten times as much, and are too many by five steps.
    std::vector<uint64_t> small(40 * 3);
    std::iota(small.begin(), small.end(), 1);
    std::vector<uint64_t> large(45 * 2);
    std::iota(large.begin(), large.end(), 1);
    SeededRandom random(seed);
    const auto orders = OrderByCost(CostGroups{{small, 3}, {large, 2}}, random);
    for (size_t step = 0; step < 40; ++step) {
      // Its place among the steps, of 40; ten batches of the other group are not in them.
      const uint32_t place = orders[0][3 * step] / 3;
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(orders[0][3 * step + i] / 3, place);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_GE(orders[1][2 * step + i], 2 * place);
        EXPECT_LE(orders[1][2 * step + i], 2 * place + 1 + 10);
      }
    }
    for (size_t step = 40; step < 45; ++step) {
      // Neighbours, unless those that were left over lie at both ends.
      const auto [low, high] = std::minmax(orders[1][2 * step], orders[1][2 * step + 1]);
      EXPECT_TRUE(high - low == 1 || (low < 10 && high >= 80)) << low << " " << high;
    }
  }
}

// Each batch, the cheapest as the dearest, comes in each step equally often, and at each rank; and
// each is among the last ones, which do not fill a step, equally often.
TEST(OrderByCostTest, ABatchIsEquallyLikelyAtEachPlace) {
  constexpr size_t kBatches = 30;
  constexpr size_t kRanks = 4;  // Seven steps, and two batches.
  std::vector<uint64_t> costs(kBatches);
  std::iota(costs.begin(), costs.end(), 1);
  std::vector<uint64_t> counts(kBatches * kBatches);
  for (uint64_t seed = 0; seed < 40'000; ++seed) {
    const std::vector<uint32_t> order = Alone(costs, kRanks, seed);
    for (size_t place = 0; place < kBatches; ++place) ++counts[order[place] * kBatches + place];
  }
  for (size_t batch = 0; batch < kBatches; ++batch) {
    const auto begin = counts.begin() + static_cast<ptrdiff_t>(batch * kBatches);
    EXPECT_LT(ChiSquareDistance({begin, begin + kBatches}), 6) << batch;
  }
}

// Consecutive steps are as unlike as in a shuffle: their costs do not go together.
TEST(OrderByCostTest, ConsecutiveStepsAreUncorrelated) {
  for (const size_t num_ranks : {2, 8, 64}) {
    double sum = 0;
    constexpr int kEpochs = 200;
    const size_t num_steps = 50;
    for (uint64_t seed = 0; seed < kEpochs; ++seed) {
      const std::vector<uint64_t> costs = Costs(num_ranks * num_steps, seed);
      const std::vector<uint32_t> order = Alone(costs, num_ranks, seed);
      std::vector<double> steps(num_steps);
      for (size_t i = 0; i < order.size(); ++i) {
        steps[i / num_ranks] += static_cast<double>(costs[order[i]]);
      }
      const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / num_steps;
      double variance = 0;
      double covariance = 0;
      for (size_t i = 0; i < num_steps; ++i) {
        variance += (steps[i] - mean) * (steps[i] - mean);
        if (i > 0) covariance += (steps[i] - mean) * (steps[i - 1] - mean);
      }
      sum += covariance / variance;
    }
    // Of a shuffle: -1 / num_steps in the mean, with a deviation of 1 / sqrt(num_steps) an epoch.
    EXPECT_NEAR(sum / kEpochs, -1.0 / num_steps, 5 / std::sqrt(double{num_steps * kEpochs}))
        << num_ranks;
  }
}

TEST(OrderByCostTest, StepsAreMoreEfficientThanOfAShuffle) {
  for (const size_t num_ranks : {8, 64, 740}) {
    const std::vector<uint64_t> costs = Costs(num_ranks * 40 + 5, 3);
    SeededRandom random(4);
    const double drawn = EfficiencyOf(costs, Shuffled(costs.size(), random), num_ranks);
    const double balanced = EfficiencyOf(costs, Alone(costs, num_ranks, 5), num_ranks);
    EXPECT_LT(drawn, 0.6);
    EXPECT_GT(balanced, 0.95);
  }
}

TEST(OrderByCostTest, BatchesOfOneCostAreShuffled) {
  // Without a difference in cost, it is a shuffle of runs.
  const std::vector<uint64_t> costs(24, 7);
  EXPECT_NE(Alone(costs, 4, 1), Alone(costs, 4, 2));
}

TEST(StepEfficiencyTest, IsTheMeanOfMeansOverLargest) {
  const std::vector<double> costs = {1, 3, 2, 2, 100};
  const BatchesOfRanks<double> two = {costs, 2};
  // The last one fills no step.
  EXPECT_DOUBLE_EQ(StepEfficiency({&two, 1}), (2.0 / 3 + 1) / 2);
  const BatchesOfRanks<double> many = {costs, 10};
  EXPECT_DOUBLE_EQ(StepEfficiency({&many, 1}), 108.0 / 10 / 100);
  const BatchesOfRanks<double> none = {{}, 2};
  EXPECT_EQ(StepEfficiency({&none, 1}), 1);
  const std::vector<double> free = {0, 0};
  const BatchesOfRanks<double> of_free = {free, 2};
  EXPECT_EQ(StepEfficiency({&of_free, 1}), 1);
  const std::vector<double> others = {4, 1, 7};
  const std::vector<BatchesOfRanks<double>> groups = {{costs, 2}, {others, 1}};
  EXPECT_DOUBLE_EQ(StepEfficiency(groups), (8.0 / 3 / 4 + 5.0 / 3 / 2) / 2);
}

}  // namespace
}  // namespace packhouse
