#include "service/engine/epochs/selection.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ItemsThatFitTest, EachItemFitsOrIsNamed) {
  const std::vector<uint32_t> counts = {6, 2, 7, 2, 0, 9, 6, 8};
  const Limits limits = Limits::Create({6, 8, kUnlimited}).value();
  PH_ASSERT_OK_AND_ASSIGN(FittingItems fitting,
                          ItemsThatFit(NodesAndEdges(counts), std::nullopt, {limits}));
  EXPECT_THAT(fitting.items, ElementsAre(0, 3));
  EXPECT_THAT(fitting.rejected, ElementsAre(ItemRejection{1, 0, 7, 6}, ItemRejection{2, 1, 9, 8}));
  // A graph that fits one of several limits is taken.
  const Limits wide = Limits::Create({7, 1, kUnlimited}).value();
  const Limits deep = Limits::Create({1, 9, kUnlimited}).value();
  PH_ASSERT_OK_AND_ASSIGN(
      fitting, ItemsThatFit(NodesAndEdges(counts), std::vector<uint32_t>{3, 2, 1}, {wide, deep}));
  EXPECT_THAT(fitting.items, ElementsAre(2));
  EXPECT_THAT(fitting.rejected, ElementsAre(ItemRejection{3, 0, 6, 1}, ItemRejection{1, 0, 7, 1}));
  // All are counted, and the first are listed.
  PH_ASSERT_OK_AND_ASSIGN(fitting, ItemsThatFit(NodesAndEdges(counts), std::nullopt, {deep}, 2));
  EXPECT_THAT(fitting.items, ElementsAre(2));
  EXPECT_EQ(fitting.num_rejected, 3U);
  EXPECT_THAT(fitting.rejected, ElementsAre(ItemRejection{0, 0, 6, 1}, ItemRejection{1, 0, 7, 1}));
  const auto refused = [&](std::optional<std::vector<uint32_t>> selection,
                           const std::vector<Limits>& some) {
    std::optional<absl::Span<const uint32_t>> of;
    if (selection) of = *selection;
    return ItemsThatFit(NodesAndEdges(counts), of, some).status();
  };
  EXPECT_EQ(refused(std::nullopt, {}), absl::InvalidArgumentError("limits: none"));
  EXPECT_EQ(refused(std::nullopt, {limits, Limits::Create({1, 1}).value()}),
            absl::InvalidArgumentError("limits: of 1 components, items have 2"));
  EXPECT_EQ(refused(std::vector<uint32_t>{3, 4}, {limits}),
            absl::InvalidArgumentError("selection: item 4, the data set has 4 items"));
}

TEST(SubsetOfTest, IsASet) {
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> subset, SubsetOf(10, {9, 0, 4}));
  EXPECT_THAT(subset, ElementsAre(0, 4, 9));
  EXPECT_THAT(SubsetOf(10, {}), IsOk());
  EXPECT_EQ(SubsetOf(10, {4, 9, 4}).status(),
            absl::InvalidArgumentError("subset: item 4 is listed twice"));
  EXPECT_EQ(SubsetOf(9, {4, 9}).status(),
            absl::InvalidArgumentError("subset: item 9, the data set has 9 items"));
}

TEST(IntegerWeightsTest, KeepsProportions) {
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> weights,
                          IntegerWeights({1.0, 0.5, 0.0, 1e-300, 0.75}));
  EXPECT_THAT(weights, ElementsAre(1U << 31, 1U << 30, 0, 1, 3U << 29));
  const double tiny = std::numeric_limits<double>::denorm_min();
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> tiny_weights, IntegerWeights({tiny, 0}));
  EXPECT_THAT(tiny_weights, ElementsAre(1U << 31, 0));
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> huge,
                          IntegerWeights({std::numeric_limits<double>::max()}));
  EXPECT_GE(huge[0], 1U << 31);
  EXPECT_EQ(IntegerWeights({1, -1}).status(),
            absl::InvalidArgumentError("weights: number 1 is -1, must be finite and not "
                                       "negative"));
  EXPECT_EQ(IntegerWeights({std::nan("")}).status(),
            absl::InvalidArgumentError("weights: number 0 is nan, must be finite and not "
                                       "negative"));
  EXPECT_THAT(IntegerWeights({0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("none is above 0")));
}

double ChiSquare(const std::vector<uint32_t>& weights, const std::vector<uint32_t>& sample) {
  std::vector<uint64_t> seen(weights.size(), 0);
  for (const uint32_t item : sample) ++seen[item];
  double total = 0;
  for (const uint32_t weight : weights) total += weight;
  double chi_square = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double expected = static_cast<double>(sample.size()) * weights[i] / total;
    if (weights[i] == 0) {
      EXPECT_EQ(seen[i], 0U);
      continue;
    }
    const double difference = static_cast<double>(seen[i]) - expected;
    chi_square += difference * difference / expected;
  }
  return chi_square;
}

// 99.9 % of the statistic with 7 degrees of freedom are below 24.3.
TEST(WeightedSamplerTest, DrawsInProportionToTheWeights) {
  const std::vector<uint32_t> weights = {1, 2, 3, 0, 10, 100, 7, 7, 400};
  PH_ASSERT_OK_AND_ASSIGN(const WeightedSampler sampler, WeightedSampler::Create(weights));
  for (const uint64_t seed : {1, 2, 3}) {
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> sample, sampler.Draw(200000, {seed, 0}));
    EXPECT_LT(ChiSquare(weights, sample), 24.3);
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> again, sampler.Draw(200000, {seed, 0}));
    EXPECT_EQ(sample, again);
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> next, sampler.Draw(200000, {seed, 1}));
    EXPECT_NE(sample, next);
  }
}

TEST(WeightedSamplerTest, WeightsMayBeAnything) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<uint32_t> weights(random.Between(1, 20), 0);
    for (uint32_t& weight : weights) {
      if (random.Below(3) != 0) weight = static_cast<uint32_t>(random.Next() >> random.Below(64));
    }
    weights[random.Below(weights.size())] = std::numeric_limits<uint32_t>::max();
    PH_ASSERT_OK_AND_ASSIGN(const WeightedSampler sampler, WeightedSampler::Create(weights));
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> sample, sampler.Draw(100, {seed, 0}));
    for (const uint32_t item : sample) EXPECT_GT(weights.at(item), 0U);
  }
  EXPECT_THAT(WeightedSampler::Create({0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("none is above 0")));
  EXPECT_EQ(WeightedSampler::Create({}).status(),
            absl::InvalidArgumentError("weights: none is above 0"));
}

// What a seed means must not change from release to release.
TEST(WeightedSamplerTest, GivesTheSameItemsInEveryRelease) {
  const std::vector<uint32_t> weights = {10, 20, 30, 0, 25, 17, 7, 7, 40};
  PH_ASSERT_OK_AND_ASSIGN(const WeightedSampler sampler, WeightedSampler::Create(weights));
  EXPECT_EQ(sampler.total(), 156U);
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> sample, sampler.Draw(12, {42, 5}));
  EXPECT_EQ(sample, (std::vector<uint32_t>{8, 0, 4, 2, 2, 8, 8, 1, 5, 1, 7, 8}));
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> all,
                          SampleWithoutReplacement(weights, 8, {42, 5}));
  EXPECT_EQ(all, (std::vector<uint32_t>{8, 0, 4, 2, 5, 1, 6, 7}));
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> places,
                          DrawPlaces(weights, std::nullopt, false, {42, 5}, Making()));
  EXPECT_EQ(places, all);
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> as_many,
                          DrawPlaces(weights, std::nullopt, true, {42, 5}, Making()));
  EXPECT_EQ(as_many, std::vector<uint32_t>(sample.begin(), sample.begin() + 9));
  EXPECT_EQ(
      SampleWithoutReplacement(weights, 9, {42, 5}).status(),
      absl::InvalidArgumentError("sample: 9 items without replacement, 8 have a weight above 0"));
}

// The probability of every order of three items, exactly: w_a / W * w_b / (W - w_a).
TEST(SampleWithoutReplacementTest, DrawsOrdersWithTheirProbability) {
  constexpr uint64_t kSamples = 60000;
  const std::vector<uint32_t> weights = {1, 0, 3, 6};
  std::map<std::vector<uint32_t>, uint64_t> seen;
  for (uint64_t epoch = 0; epoch < kSamples; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> sample,
                            SampleWithoutReplacement(weights, 3, {4, epoch}));
    ++seen[sample];
  }
  double chi_square = 0;
  for (const auto& [order, count] : seen) {
    const double first = weights[order[0]];
    const double second = weights[order[1]];
    const double expected = kSamples * first / 10 * second / (10 - first);
    chi_square += (static_cast<double>(count) - expected) *
                  (static_cast<double>(count) - expected) / expected;
  }
  EXPECT_EQ(seen.size(), 6U);
  // 99.9 % of the statistic with 5 degrees of freedom are below 20.5.
  EXPECT_LT(chi_square, 20.5);
}

TEST(SampleWithoutReplacementTest, DrawsNothingTwiceAndAllIfAsked) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    std::vector<uint32_t> weights(random.Between(1, 70));
    std::set<uint32_t> positive;
    for (uint32_t i = 0; i < weights.size(); ++i) {
      weights[i] = random.Below(4) == 0 ? 0 : static_cast<uint32_t>(random.Next() >> 40);
      if (weights[i] != 0) positive.insert(i);
    }
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> all,
                            SampleWithoutReplacement(weights, positive.size(), {seed, 0}));
    EXPECT_EQ(all.size(), positive.size());
    EXPECT_EQ(std::set<uint32_t>(all.begin(), all.end()), positive);
    // Fewer are the first of more.
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> half,
                            SampleWithoutReplacement(weights, all.size() / 2, {seed, 0}));
    EXPECT_TRUE(std::equal(half.begin(), half.end(), all.begin()));
    EXPECT_THAT(SampleWithoutReplacement(weights, positive.size() + 1, {seed, 0}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("have a weight above 0")));
  }
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> none, SampleWithoutReplacement({}, 0, {}));
  EXPECT_THAT(none, IsEmpty());
}

// A sample is planned and drawn like anything else; what it has twice is in two places.
TEST(WeightedSamplerTest, ASampleIsAnEpoch) {
  const std::vector<uint32_t> counts = FewSizes(40, 5);
  const std::vector<uint32_t> weights(40, 3);
  PH_ASSERT_OK_AND_ASSIGN(const WeightedSampler sampler, WeightedSampler::Create(weights));
  PH_ASSERT_OK_AND_ASSIGN(std::vector<uint32_t> sample, sampler.Draw(100, {1, 2}));
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes,
                          SizeClasses::Create(NodesAndEdges(counts), sample));
  const PackingPlan plan = QuickPlan(classes, Limits::Create({12, 14, kUnlimited}).value());
  std::vector<uint32_t> dealt;
  for (const auto& batch : AllBatches(Draw(classes, plan, {1, 2}))) {
    dealt.insert(dealt.end(), batch.begin(), batch.end());
  }
  std::sort(dealt.begin(), dealt.end());
  std::sort(sample.begin(), sample.end());
  EXPECT_EQ(dealt, sample);
}

}  // namespace
}  // namespace packhouse
