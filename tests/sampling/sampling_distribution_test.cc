// How often what is drawn. Seeds are fixed, so these tests give the same answer each time; the
// bounds are those that a right sampler exceeds once in 10,000 choices of seeds.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/sampling/draw_random.h"
#include "tests/sampling/sampling_worlds.h"

namespace packhouse {
namespace {

// A star: node 0 has an edge to each of the others.
std::unique_ptr<const SourceGraph> Star(const std::vector<float>& weights) {
  const auto number = [](std::string name, DType dtype) {
    return SourceColumnSpec{std::move(name), dtype, {}, false, false};
  };
  MemoryNodeSet nodes;
  nodes.num_nodes = weights.size() + 1;
  MemoryEdgeSet edges;
  std::vector<int32_t> times;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    edges.sources.push_back(0);
    edges.targets.push_back(i + 1);
    times.push_back(static_cast<int32_t>(i % 2));
  }
  edges.columns = {ColumnOf(weights), ColumnOf(times)};
  return MakeGraph({{"a", {}}},
                   {{"e",
                     0,
                     0,
                     {number("weight", DType::kFloat32), number("when", DType::kInt32)},
                     std::nullopt}},
                   {nodes}, {edges});
}

double ChiSquare(const std::vector<double>& expected, const std::vector<uint64_t>& seen) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    sum += (static_cast<double>(seen[i]) - expected[i]) *
           (static_cast<double>(seen[i]) - expected[i]) / expected[i];
  }
  return sum;
}

// By Wilson and Hilferty: what a chi-square variable exceeds once in 10,000 times.
double Bound(size_t degrees_of_freedom) {
  const double n = static_cast<double>(degrees_of_freedom);
  const double root = 1 - 2 / (9 * n) + 3.719 * std::sqrt(2 / (9 * n));
  return n * root * root * root;
}

// Targets in the order of drawing, for `repeats` epochs.
template <typename Visit>
void DrawOften(const Sampler& sampler, uint64_t repeats, const Visit& visit) {
  SamplerScratch scratch;
  SampledGraph sampled;
  const std::vector<uint32_t> seeds = {0};
  DrawRequest request;
  request.seeds = seeds;
  request.time = 0;
  for (request.epoch = 0; request.epoch < repeats; ++request.epoch) {
    ASSERT_TRUE(sampler.Draw(request, scratch, sampled).ok());
    std::vector<uint32_t> targets;
    for (const uint32_t target : sampled.edge_sets[0].targets) {
      targets.push_back(sampled.node_sets[0].numbers[target]);
    }
    visit(targets);
  }
}

void ExpectSubsetsEquallyLikely(const Sampler& sampler, size_t num_subsets) {
  constexpr uint64_t kRepeats = 40000;
  std::map<std::set<uint32_t>, uint64_t> counts;
  DrawOften(sampler, kRepeats, [&](const std::vector<uint32_t>& targets) {
    ++counts[std::set<uint32_t>(targets.begin(), targets.end())];
  });
  ASSERT_EQ(counts.size(), num_subsets);
  std::vector<uint64_t> seen;
  for (const auto& [subset, count] : counts) seen.push_back(count);
  const std::vector<double> expected(num_subsets, double{kRepeats} / num_subsets);
  EXPECT_LT(ChiSquare(expected, seen), Bound(num_subsets - 1));
}

TEST(SamplingDistributionTest, EverySubsetIsEquallyLikely) {
  const auto graph = Star(std::vector<float>(8, 1));
  ExpectSubsetsEquallyLikely(SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 3)})),
                             56);
}

TEST(SamplingDistributionTest, EverySubsetOfThoseInTimeIsEquallyLikely) {
  const auto graph = Star(std::vector<float>(14, 1));
  SamplingOptions options;
  options.edge_time_column = "when";
  ExpectSubsetsEquallyLikely(
      SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 3)}), options), 35);
}

// The way of larger fan-outs: each edge, and each pair of edges, as often as any other.
TEST(SamplingDistributionTest, LargeFanOutsAreUniformToo) {
  constexpr uint64_t kDegree = 100;
  constexpr uint64_t kFanOut = 40;
  constexpr uint64_t kRepeats = 20000;
  const auto graph = Star(std::vector<float>(kDegree, 1));
  const Sampler sampler = SamplerOf(*graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", kFanOut)}));
  std::vector<uint64_t> seen(kDegree);
  uint64_t first_two = 0;
  DrawOften(sampler, kRepeats, [&](const std::vector<uint32_t>& targets) {
    const std::set<uint32_t> distinct(targets.begin(), targets.end());
    ASSERT_EQ(distinct.size(), kFanOut);
    for (const uint32_t target : targets) ++seen[target - 1];
    first_two += distinct.count(1) * distinct.count(2);
  });
  const std::vector<double> expected(kDegree, double{kRepeats} * kFanOut / kDegree);
  // Counts of a draw without replacement vary less than those of independent ones.
  const double chi_square =
      ChiSquare(expected, seen) / (1 - double{kFanOut} / kDegree) * (kDegree - 1) / kDegree;
  EXPECT_LT(chi_square, Bound(kDegree - 1));
  EXPECT_NEAR(static_cast<double>(first_two) / kRepeats,
              double{kFanOut} * (kFanOut - 1) / (kDegree * (kDegree - 1)), 0.012);
}

// Ordered pairs have the chances of drawing one after the other.
TEST(SamplingDistributionTest, WeightedDrawsFollowTheWeights) {
  constexpr uint64_t kRepeats = 60000;
  const std::vector<float> weights = {1, 2, 4, 0, 0.5F, 8, -1, std::nanf("")};
  const auto graph = Star(weights);
  tfgnn::SamplingOp op = UniformOp("h", {"seed"}, "e", 2);
  op.strategy = tfgnn::SamplingStrategy::kRandomWeighted;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> counts;
  DrawOften(SamplerOf(*graph, SpecOf("a", {op})), kRepeats,
            [&](const std::vector<uint32_t>& targets) {
              ASSERT_EQ(targets.size(), 2U);
              ++counts[{targets[0] - 1, targets[1] - 1}];
            });
  std::vector<double> expected;
  std::vector<uint64_t> seen;
  double total = 0;
  for (const float weight : weights) total += weight > 0 ? weight : 0;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    for (uint32_t j = 0; j < weights.size(); ++j) {
      if (i == j || !(weights[i] > 0) || !(weights[j] > 0)) continue;
      expected.push_back(kRepeats * weights[i] / total * weights[j] / (total - weights[i]));
      seen.push_back(counts[{i, j}]);
      counts.erase({i, j});
    }
  }
  EXPECT_THAT(counts, testing::IsEmpty());
  ASSERT_EQ(expected.size(), 20U);
  EXPECT_LT(ChiSquare(expected, seen), Bound(19));
}

// Two draws of one node, by different ops, epochs, seed numbers: independent.
TEST(SamplingDistributionTest, DrawsOfDifferentOpsAreIndependent) {
  constexpr uint64_t kRepeats = 40000;
  const auto graph = Star(std::vector<float>(6, 1));
  const Sampler sampler = SamplerOf(
      *graph, SpecOf("a", {UniformOp("h", {"seed"}, "e", 1), UniformOp("g", {"seed"}, "e", 1)}));
  uint64_t same = 0;
  DrawOften(sampler, kRepeats,
            [&](const std::vector<uint32_t>& targets) { same += targets.size() == 1 ? 1 : 0; });
  EXPECT_NEAR(static_cast<double>(same) / kRepeats, 1.0 / 6, 0.0075);
}

TEST(SamplingDistributionTest, PortableLogIsTheLogarithm) {
  SeededRandom random(1);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::ldexp(1 + static_cast<double>(random.Next() >> 11) * 0x1p-53,
                                -1 - static_cast<int>(random.Below(60)));
    EXPECT_NEAR(PortableLog(x) / std::log(x), 1, 4e-15) << x;
  }
  EXPECT_EQ(PortableLog(1), 0);
}

}  // namespace
}  // namespace packhouse
