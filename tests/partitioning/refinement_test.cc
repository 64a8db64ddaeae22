#include "service/wings/partition/cutting/refinement.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/best_parts.h"
#include "service/wings/partition/cutting/coarsening.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/symmetric_graph.h"
#include "tests/partitioning/assignment_fingerprint.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// Parallel edges, in both directions and of any type, are one edge of their number; self loops go.
// Where all numbers are equal there are no weights.
TEST(SymmetrizeTest, CountsParallelEdges) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    PH_ASSERT_OK_AND_ASSIGN(const SymmetricGraph symmetric, Symmetrize(graph, nullptr, {}));
    const uint32_t nodes = graph.num_nodes();
    std::vector<uint32_t> matrix(size_t{nodes} * nodes);
    for (const HomogeneousEdgeType& type : graph.edge_types()) {
      for (uint32_t row = 0; row < type.by_source.num_rows(); ++row) {
        for (uint64_t at = type.by_source.offsets[row]; at < type.by_source.offsets[row + 1];
             ++at) {
          const uint32_t a = graph.node_types()[type.source].start + row;
          const uint32_t b = graph.node_types()[type.target].start + type.by_source.neighbours[at];
          if (a == b) continue;
          ++matrix[size_t{a} * nodes + b];
          ++matrix[size_t{b} * nodes + a];
        }
      }
    }
    std::vector<uint32_t> numbers;
    for (const uint32_t number : matrix) {
      if (number > 0) numbers.push_back(number);
    }
    const bool equal =
        std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end();
    EXPECT_EQ(symmetric.weights == nullptr, equal);
    EXPECT_EQ(symmetric.num_entries(), numbers.size());
    for (uint32_t a = 0; a < nodes; ++a) {
      for (uint64_t at = symmetric.offsets[a]; at < symmetric.offsets[a + 1]; ++at) {
        const uint32_t b = symmetric.neighbours_view()[at];
        if (at > symmetric.offsets[a]) {
          ASSERT_LT(symmetric.neighbours_view()[at - 1], b);
        }
        const uint32_t weight = equal ? numbers.front() : symmetric.weights_view()[at];
        ASSERT_EQ(matrix[size_t{a} * nodes + b], weight);
      }
    }
  }
}

// Weights of edges are added where edges join the same two nodes, then divided by what divides all
// sums, and rounded up by a power of two until METIS can add them up.
TEST(SymmetrizeTest, WeightsOfEdgesAreDividedAndRoundedUp) {
  size_t num_rounded = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    SeededRandom random(seed);
    const uint64_t factor = 1 + random.Below(5);
    // From small ones to those whose sum is nearly 2^62.
    const uint64_t most = ((uint64_t{1} << 62) / (graph.num_edges() + 1) / factor) >> (seed % 62);
    std::vector<std::vector<uint64_t>> weights;
    for (const HomogeneousEdgeType& type : graph.edge_types()) {
      for (weights.emplace_back(); weights.back().size() < type.size;) {
        weights.back().push_back(factor * random.Below(most + 1));
      }
    }
    PH_ASSERT_OK_AND_ASSIGN(const SymmetricGraph symmetric,
                            Symmetrize(graph, nullptr, {}, weights));
    const uint32_t nodes = graph.num_nodes();
    std::vector<std::map<uint32_t, uint64_t>> sums(nodes);
    uint64_t divisor = 0;
    uint64_t total = 0;
    size_t num_entries = 0;
    for (uint32_t node = 0; node < nodes; ++node) {
      graph.ForEachWeighted(node, weights, [&](uint32_t other, uint64_t weight) {
        if (other != node) sums[node][other] += weight;
      });
      num_entries += sums[node].size();
      for (const auto& [other, sum] : sums[node]) divisor = std::gcd(divisor, sum);
    }
    divisor = std::max<uint64_t>(divisor, 1);
    const uint64_t rounded = symmetric.rounded_by;
    num_rounded += rounded > 1 ? 1 : 0;
    EXPECT_EQ(rounded & (rounded - 1), 0U);
    ASSERT_EQ(symmetric.num_entries(), num_entries);
    std::set<uint64_t> expected;
    for (uint32_t node = 0; node < nodes; ++node) {
      uint64_t at = symmetric.offsets[node];
      for (const auto& [other, sum] : sums[node]) {
        const uint64_t weight = sum / divisor / rounded + (sum / divisor % rounded != 0 ? 1 : 0);
        expected.insert(weight);
        total += weight;
        ASSERT_EQ(symmetric.neighbours_view()[at], other);
        if (symmetric.weights != nullptr) {
          ASSERT_EQ(symmetric.weights_view()[at], weight);
        }
        ++at;
      }
      EXPECT_EQ(at, symmetric.offsets[node + 1]);
    }
    EXPECT_LT(total, uint64_t{1} << 31);
    EXPECT_EQ(symmetric.weights == nullptr, expected.size() <= 1);
  }
  EXPECT_GT(num_rounded, 50U);
  EXPECT_LT(num_rounded, 150U);
}

TEST(RepairBalanceTest, OverfullAndEmptyPartsAreMended) {
  const auto source = OneSetGraph(60, RingOfCliques(12, 5));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const SymmetricGraph symmetric, Symmetrize(graph, nullptr, {}));
  // All nodes, and every third one.
  std::vector<uint32_t> weights(120);
  for (uint32_t node = 0; node < 60; ++node) {
    weights[node * 2] = 1;
    weights[node * 2 + 1] = node % 3 == 0 ? 1 : 0;
  }
  const WeightedGraph view{symmetric.offsets, symmetric.neighbours_view(), symmetric.weights_view(),
                           weights, 2};
  const PartLimits limits{4, {16, 6}};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SeededRandom random(seed);
    std::vector<uint32_t> part(60);
    for (uint32_t& p : part) p = static_cast<uint32_t>(random.Below(1 + seed % 4));
    ASSERT_TRUE(RepairBalance(view, limits, absl::MakeSpan(part))) << seed;
    const PartLoads loads(&view, &limits, part);
    EXPECT_LE(loads.Excess(), 1);
    EXPECT_EQ(loads.num_empty(), 0U);
  }
  std::vector<uint32_t> part(60);
  const PartLimits impossible{4, {14, 5}};
  EXPECT_FALSE(RepairBalance(view, impossible, absl::MakeSpan(part)));
}

// Where no part has room, a node still goes where the limits are exceeded by less than before.
TEST(RepairBalanceTest, PartsThatCannotAllKeepALimitExceedItByLess) {
  for (const size_t num_constraints : {1, 2}) {
    // Seven nodes of weight 2 in part 0, one of 9 in part 1.
    std::vector<uint32_t> weights(7 * num_constraints, 2);
    weights.resize(8 * num_constraints, 9);
    const std::vector<uint64_t> offsets(9, 0);
    const WeightedGraph graph{offsets, {}, {}, weights, num_constraints};
    const PartLimits limits{2, std::vector<uint64_t>(num_constraints, 10)};
    std::vector<uint32_t> part = {0, 0, 0, 0, 0, 0, 0, 1};
    EXPECT_FALSE(RepairBalance(graph, limits, absl::MakeSpan(part)));
    const PartLoads loads(&graph, &limits, part);
    for (size_t c = 0; c < num_constraints; ++c) {
      EXPECT_EQ(loads.load(0, c), 12U);
      EXPECT_EQ(loads.load(1, c), 11U);
    }
  }
}

// Of any partitions, however bad, the result is no worse than the best, keeps every limit and
// depends on the seed alone.
TEST(JoinPartsTest, NeverWorseThanTheBestAndWithinTheLimits) {
  const auto source = OneSetGraph(400, RingOfCliques(50, 8));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const SymmetricGraph symmetric, Symmetrize(graph, nullptr, {}));
  std::vector<uint32_t> weights(800);
  for (uint32_t node = 0; node < 400; ++node) {
    weights[node * 2] = 1;
    weights[node * 2 + 1] = node % 3 == 0 ? 1 + node % 5 : 0;
  }
  uint64_t total = 0;
  for (uint32_t node = 0; node < 400; ++node) total += weights[node * 2 + 1];
  const WeightedGraph view{symmetric.offsets, symmetric.neighbours_view(), symmetric.weights_view(),
                           weights, 2};
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto num_parts = static_cast<uint32_t>(2 + seed % 5);
    const PartLimits limits{num_parts, {400 / num_parts + 20, total / num_parts + 30}};
    SeededRandom random(seed);
    std::vector<std::vector<uint32_t>> found(3, std::vector<uint32_t>(400));
    uint64_t best = UINT64_MAX;
    for (std::vector<uint32_t>& part : found) {
      for (uint32_t& p : part) p = static_cast<uint32_t>(random.Below(num_parts));
      ASSERT_TRUE(RepairBalance(view, limits, absl::MakeSpan(part)));
      best = std::min(best, CutOf(view, part));
    }
    const std::vector<uint32_t> joined = JoinParts(view, limits, found, seed, {});
    EXPECT_EQ(JoinParts(view, limits, found, seed, {}), joined);
    EXPECT_LE(CutOf(view, joined), best / 4);
    const PartLoads loads(&view, &limits, joined);
    EXPECT_LE(loads.Excess(), 1);
    EXPECT_EQ(loads.num_empty(), 0U);
    // However early it is given up.
    for (int looks : {0, 1, 5, 20}) {
      const std::vector<uint32_t> early =
          JoinParts(view, limits, found, seed, {[&looks] { return --looks < 0; }, nullptr});
      EXPECT_LE(PartLoads(&view, &limits, early).Excess(), 1);
      EXPECT_LE(CutOf(view, early), best);
    }
  }
}

// The weight of what is cut along blocks, and all weights of nodes, are those of the finer graph.
TEST(CoarsenTest, KeepsWeightsAndCuts) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    PH_ASSERT_OK_AND_ASSIGN(const SymmetricGraph symmetric, Symmetrize(graph, nullptr, {}));
    const std::vector<uint32_t> ones(graph.num_nodes(), 1);
    const WeightedGraph view{symmetric.offsets, symmetric.neighbours_view(),
                             symmetric.weights_view(), ones, 1};
    SeededRandom random(seed);
    std::vector<uint64_t> block(graph.num_nodes());
    for (uint64_t& b : block) b = random.Below(3);
    const CoarseGraph coarse = Coarsen(view, block, {4}, random);
    std::vector<uint32_t> coarse_part(coarse.num_nodes(), UINT32_MAX);
    const std::vector<uint32_t> part(block.begin(), block.end());
    uint64_t weight = 0;
    for (uint32_t c = 0; c < coarse.num_nodes(); ++c) {
      EXPECT_LE(coarse.node_weights[c], 4U);
      weight += coarse.node_weights[c];
    }
    EXPECT_EQ(weight, graph.num_nodes());
    for (uint32_t node = 0; node < graph.num_nodes(); ++node) {
      uint32_t& p = coarse_part[coarse.coarse_of[node]];
      EXPECT_TRUE(p == UINT32_MAX || p == part[node]);
      p = part[node];
    }
    EXPECT_EQ(CutOf(coarse.view(), coarse_part), CutOf(view, part));
  }
}

// A weighted graph with cliques and hubs, random weights of nodes, and limits that are just kept.
class WeightedWorld {
 public:
  WeightedWorld(uint32_t cliques, uint32_t num_parts, size_t num_constraints, uint64_t seed)
      : random_(seed) {
    const uint32_t nodes = cliques * 8;
    Pairs edges = RingOfCliques(cliques, 8);
    for (uint32_t i = 0; i < nodes; ++i) {
      edges.emplace_back(random_.Below(nodes), random_.Below(1 + random_.Below(nodes)));
    }
    const auto source = OneSetGraph(nodes, edges);
    symmetric_ = *Symmetrize(*HomogeneousGraph::Create(source.get()), nullptr, {});
    std::vector<uint64_t> totals(num_constraints);
    for (uint32_t node = 0; node < nodes; ++node) {
      for (size_t c = 0; c < num_constraints; ++c) {
        weights_.push_back(c == 0 ? 1 : static_cast<uint32_t>(random_.Below(2 + 2 * c)));
        totals[c] += weights_.back();
      }
      sizes_.push_back(static_cast<uint32_t>(random_.Below(4)));
    }
    limits_.num_parts = num_parts;
    for (const uint64_t total : totals) {
      limits_.limit.push_back(total / num_parts * 51 / 50 + 1);
    }
  }

  WeightedGraph view() const {
    return {symmetric_.offsets, symmetric_.neighbours_view(), symmetric_.weights_view(),
            weights_,           limits_.limit.size(),         sizes_};
  }
  const PartLimits& limits() const { return limits_; }
  SeededRandom& random() { return random_; }
  // Of the first `some` parts.
  std::vector<uint32_t> RandomParts(uint32_t some) {
    std::vector<uint32_t> part(view().num_nodes());
    for (uint32_t& p : part) p = static_cast<uint32_t>(random_.Below(some));
    return part;
  }

 private:
  SeededRandom random_;
  SymmetricGraph symmetric_;
  std::vector<uint32_t> weights_;
  std::vector<uint32_t> sizes_;
  PartLimits limits_;
};

TEST(RepairBalanceTest, TheSameArgumentsGiveTheseParts) {
  Fingerprint fingerprint;
  size_t num_kept = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto num_parts = static_cast<uint32_t>(2 + seed % 7);
    WeightedWorld world(static_cast<uint32_t>(5 + seed % 9), num_parts, 1 + seed % 3, seed);
    std::vector<uint32_t> part = world.RandomParts(static_cast<uint32_t>(1 + seed % num_parts));
    const bool kept = RepairBalance(world.view(), world.limits(), absl::MakeSpan(part));
    num_kept += kept ? 1 : 0;
    fingerprint.Add(kept ? 1 : 0);
    fingerprint.AddAll(part);
    const WeightedGraph view = world.view();
    const PartLoads loads(&view, &world.limits(), part);
    fingerprint.AddDouble(loads.Excess());
    fingerprint.Add(loads.num_empty());
    fingerprint.Add(VolumeOf(view, part, num_parts));
    fingerprint.Add(CutOf(view, part));
  }
  EXPECT_GT(num_kept, 20U);
  EXPECT_LT(num_kept, 60U);
  EXPECT_EQ(fingerprint.value(), 7212421446834240295U);
}

TEST(CoarsenTest, TheSameArgumentsGiveTheseClusters) {
  Fingerprint fingerprint;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    WeightedWorld world(static_cast<uint32_t>(4 + seed % 9), 3, 1 + seed % 3, seed);
    std::vector<uint64_t> block(world.view().num_nodes());
    for (uint64_t& b : block) b = world.random().Below(1 + seed % 3);
    const std::vector<uint64_t> most(1 + seed % 3, 3 + seed % 5);
    const CoarseGraph coarse = Coarsen(world.view(), block, most, world.random());
    fingerprint.AddAll(coarse.coarse_of);
    fingerprint.AddAll(coarse.offsets);
    fingerprint.AddAll(coarse.neighbours);
    fingerprint.AddAll(coarse.edge_weights);
    fingerprint.AddAll(coarse.node_weights);
    fingerprint.Add(coarse.num_constraints);
  }
  EXPECT_EQ(fingerprint.value(), 18283032705167599265U);
}

// With few parts, of which all connections are kept, and with so many that they are counted.
TEST(JoinPartsTest, TheSameArgumentsGiveTheseParts) {
  Fingerprint fingerprint;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const uint32_t num_parts = seed % 5 == 4 ? 70 : static_cast<uint32_t>(2 + seed % 4);
    WeightedWorld world(static_cast<uint32_t>(30 + 2 * seed), num_parts, 1 + seed % 2, seed);
    std::vector<std::vector<uint32_t>> found;
    for (uint64_t i = 0; i < seed % 3; ++i) found.push_back(world.RandomParts(num_parts));
    const auto tell = [&fingerprint](PartitionPhase phase, double share) {
      fingerprint.Add(static_cast<uint64_t>(phase));
      fingerprint.AddDouble(share);
    };
    fingerprint.AddAll(JoinParts(world.view(), world.limits(), found, seed, {nullptr, tell}));
  }
  EXPECT_EQ(fingerprint.value(), 11779263310465204651U);
}

}  // namespace
}  // namespace packhouse
