// Epochs whose batches come in steps of like cost: which batches, in which order, what is told of
// it, and where it is refused.
#include "service/engine/epochs/cost_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/algorithms/planning/step_order.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/wings/partition/epochs/joined_parts.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Graphs of 0 to 60 nodes and edges, in groups of about ten.
DatasetWorld& CostWorld() {
  static DatasetWorld* const world = [] {
    auto* made = new DatasetWorld(900, 4, 60, 90);
    made->Seal();
    return made;
  }();
  return *world;
}

EpochBounds CostBounds() {
  EpochBounds bounds;
  bounds.planner_steps = 100'000;
  return bounds;
}

BatchCost PolynomialOf(std::vector<CostTerm> terms) { return BatchCost::Create(terms, 2).value(); }

const CostTerm kEdges = {CostForm::kRows, 1, 1};
const CostTerm kSquaresOfNodes = {CostForm::kSumOfSquares, 0, 1};

EpochRequest BalancedRequest(uint32_t num_ranks = 4,
                             std::optional<BatchCost> cost = PolynomialOf({kEdges}),
                             uint64_t epoch = 0) {
  EpochRequest request = DatasetWorld::Request({300, 400, 64}, epoch);
  request.rank_groups[0].num_ranks = num_ranks;
  request.cost_balanced.emplace().cost = std::move(cost);
  return request;
}

EpochRequest ShuffledRequest(EpochRequest request) {
  request.cost_balanced = std::nullopt;
  return request;
}

std::shared_ptr<const PreparedEpoch> PreparedByCost(const EpochRequest& request) {
  EpochCatalog catalog(&CostWorld().store(), CostBounds());
  auto epoch = catalog.Prepare(request);
  EXPECT_THAT(epoch, IsOk());
  return epoch.ok() ? *epoch : nullptr;
}

// By rank group, the ids of each batch's graphs.
using GroupedBatches = std::vector<std::vector<std::vector<uint64_t>>>;

GroupedBatches GroupedBatchesOf(const PreparedEpoch& epoch) {
  GroupedBatches batches;
  uint64_t number = 0;
  for (size_t i = 0; i < epoch.plan().num_rank_groups(); ++i) {
    batches.emplace_back();
    for (uint64_t b = 0; b < epoch.plan().num_batches(i); ++b, ++number) {
      batches.back().push_back(epoch.Build(number).value().batch.graph_ids);
    }
  }
  return batches;
}

GroupedBatches SortedGroups(GroupedBatches batches) {
  for (auto& group : batches) {
    for (auto& batch : group) std::sort(batch.begin(), batch.end());
    std::sort(group.begin(), group.end());
  }
  return batches;
}

// Each batch's edges, or its sum of squared nodes, from what is sent.
std::vector<double> CostsByEdges(const PreparedEpoch& epoch) {
  std::vector<double> costs;
  for (uint64_t b = 0; b < epoch.identity().num_batches(); ++b) {
    costs.push_back(static_cast<double>(epoch.Build(b).value().batch.real_rows[1]));
  }
  return costs;
}
std::vector<double> CostsBySquares(const PreparedEpoch& epoch) {
  const auto reader = CostWorld().store().OpenReader("graphs").value();
  const ItemSizes sizes = SizesOfGraphs(*reader);
  std::vector<double> costs;
  for (uint64_t b = 0; b < epoch.identity().num_batches(); ++b) {
    double sum = 0;
    const std::vector<uint32_t> graphs = epoch.GraphsOf(b)->places;
    for (const uint32_t graph : graphs) {
      sum += std::pow(static_cast<double>(sizes.tuple(graph)[0]), 2);
    }
    costs.push_back(sum);
  }
  return costs;
}

double EfficiencyOfSteps(const std::vector<double>& costs, size_t num_ranks) {
  const BatchesOfRanks<double> group = {costs, num_ranks};
  return StepEfficiency({&group, 1});
}

std::vector<std::pair<std::string, EpochRequest>> BalancedRequests() {
  std::vector<std::pair<std::string, EpochRequest>> requests;
  const auto add = [&](std::string name) -> EpochRequest& {
    requests.emplace_back(std::move(name), BalancedRequest());
    return requests.back().second;
  };
  add("one shape");
  add("one rank").rank_groups[0].num_ranks = 1;
  add("more ranks than batches").rank_groups[0].num_ranks = 5000;
  add("squares").cost_balanced->cost = PolynomialOf({kSquaresOfNodes});
  add("not mixed").mixing.is_off = true;
  add("without padding").padding = Padding::kNone;
  add("several shapes").rank_groups[0].shapes.push_back({200, 310, 64});
  add("rank groups").rank_groups.push_back({{{150, 160, 64}}, std::nullopt, 2});
  EpochRequest& groups = add("groups");
  groups.grouped = true;
  groups.cost_balanced->cost = PolynomialOf({kSquaresOfNodes});
  groups.rank_groups[0].shapes = {{900, 900, 128}};
  EpochRequest& subset = add("a subset");
  subset.subset.emplace();
  subset.subset->ranges.emplace_back(1000, 500);
  add("with replacement").draw = WeightedDraw{{}, 600, true};
  EpochRequest& pieces = add("pieces");
  pieces.padding = Padding::kNone;
  pieces.cuts_oversize = true;
  pieces.rank_groups[0].shapes = {{100, 55, 64}};
  EpochRequest& least = add("min_rows");
  least.padding = Padding::kTfgnn;
  least.min_rows = MinRows({3, 5});
  return requests;
}

// The same batches, in another order, the same each time; and steps that are more alike.
TEST(CostOrderTest, BalancedEpochsHaveTheBatchesOfAShuffle) {
  for (const auto& [name, request] : BalancedRequests()) {
    SCOPED_TRACE(name);
    const auto shuffled = PreparedByCost(ShuffledRequest(request));
    const auto balanced = PreparedByCost(request);
    ASSERT_TRUE(shuffled != nullptr && balanced != nullptr);
    EXPECT_NE(balanced->identity(), shuffled->identity());
    EXPECT_EQ(balanced->plan().receipt(), shuffled->plan().receipt());
    EXPECT_EQ(SortedGroups(GroupedBatchesOf(*balanced)), SortedGroups(GroupedBatchesOf(*shuffled)));
    EXPECT_EQ(GroupedBatchesOf(*balanced), GroupedBatchesOf(*PreparedByCost(request)));
    EXPECT_NE(GroupedBatchesOf(*balanced), GroupedBatchesOf(*shuffled));
    EXPECT_EQ(shuffled->steps(), std::nullopt);
    ASSERT_TRUE(balanced->steps().has_value());
    EXPECT_GE(balanced->steps()->efficiency, balanced->steps()->of_shuffle);
    EXPECT_LE(balanced->steps()->efficiency, 1);
  }
}

// "in steps of like cost by v1" says by which rules. Who raises the version changes these, on
// purpose; nobody else does.
TEST(CostOrderTest, TheRulesOfAVersionGiveTheSameBatchesInEveryRelease) {
  std::map<std::string, uint32_t> checksums;
  for (const auto& [name, request] : BalancedRequests()) {
    checksums[name] = ChecksumOfGraphs(*PreparedByCost(request));
  }
  const std::map<std::string, uint32_t> expected = {
      {"a subset", 3350866940U},      {"groups", 2942715234U},
      {"min_rows", 4015885536U},      {"more ranks than batches", 3297639892U},
      {"not mixed", 1302619386U},     {"one rank", 1225558854U},
      {"one shape", 943455877U},      {"pieces", 4113851732U},
      {"rank groups", 2460559684U},   {"several shapes", 3009819476U},
      {"squares", 510750709U},        {"with replacement", 1442264512U},
      {"without padding", 943455877U}};
  EXPECT_EQ(checksums, expected);
}

// What is told is what a training of these batches would measure, of this cost and of no other.
TEST(CostOrderTest, EfficiencyIsOfTheBatchesThatAreSent) {
  for (const uint32_t num_ranks : {2, 5, 8}) {
    const auto by_edges = PreparedByCost(BalancedRequest(num_ranks));
    const auto by_squares =
        PreparedByCost(BalancedRequest(num_ranks, PolynomialOf({kSquaresOfNodes})));
    const auto shuffled = PreparedByCost(ShuffledRequest(BalancedRequest(num_ranks)));
    EXPECT_NEAR(by_edges->steps()->efficiency,
                EfficiencyOfSteps(CostsByEdges(*by_edges), num_ranks), 1e-9);
    EXPECT_NEAR(by_squares->steps()->efficiency,
                EfficiencyOfSteps(CostsBySquares(*by_squares), num_ranks), 1e-9);
    EXPECT_GT(by_edges->steps()->efficiency, EfficiencyOfSteps(CostsByEdges(*shuffled), num_ranks));
    EXPECT_GT(by_squares->steps()->efficiency,
              EfficiencyOfSteps(CostsBySquares(*shuffled), num_ranks));
    EXPECT_GT(by_squares->steps()->efficiency,
              EfficiencyOfSteps(CostsBySquares(*by_edges), num_ranks) + 0.01);
    EXPECT_THAT(by_edges->steps()->num_ranks, ::testing::ElementsAre(num_ranks));
  }
}

// A step's batches are neighbours by cost.
TEST(CostOrderTest, NoOtherBatchCostsBetweenThoseOfAStep) {
  const uint32_t num_ranks = 4;
  const std::vector<double> costs =
      CostsBySquares(*PreparedByCost(BalancedRequest(num_ranks, PolynomialOf({kSquaresOfNodes}))));
  const size_t whole = costs.size() / num_ranks;
  ASSERT_GT(whole, 10U);
  for (size_t step = 0; step < whole; ++step) {
    const auto begin = costs.begin() + static_cast<ptrdiff_t>(step * num_ranks);
    const auto [least, most] = std::minmax_element(begin, begin + num_ranks);
    for (size_t i = 0; i < whole * num_ranks; ++i) {
      if (i / num_ranks == step) continue;
      EXPECT_FALSE(costs[i] > *least && costs[i] < *most) << step;
    }
  }
}

// Ranks of larger batches are taken to be faster.
TEST(CostOrderTest, RankGroupsAreComparedByTheirMeans) {
  EpochRequest request = BalancedRequest(2);
  request.rank_groups.push_back({{{60, 70, 64}}, std::nullopt, 4});
  const auto epoch = PreparedByCost(request);
  ASSERT_TRUE(epoch != nullptr && epoch->steps().has_value());
  EXPECT_THAT(epoch->steps()->num_ranks, ::testing::ElementsAre(2, 4));
  std::vector<double> costs = CostsByEdges(*epoch);
  const uint64_t first = epoch->plan().num_batches(0);
  const auto share = [&](size_t begin, size_t end) {
    double sum = 0;
    for (size_t b = begin; b < end; ++b) sum += costs[b];
    for (size_t b = begin; b < end; ++b) costs[b] *= static_cast<double>(end - begin) / sum;
  };
  share(0, first);
  share(first, costs.size());
  const auto all = absl::MakeConstSpan(costs);
  const std::vector<BatchesOfRanks<double>> groups = {{all.first(first), 2},
                                                      {all.subspan(first), 4}};
  EXPECT_NEAR(epoch->steps()->efficiency, StepEfficiency(groups), 1e-9);
  EXPECT_GT(epoch->steps()->efficiency, epoch->steps()->of_shuffle);
}

TEST(CostOrderTest, EpochsAndNumbersOfRanksHaveOrdersOfTheirOwn) {
  EXPECT_NE(GroupedBatchesOf(*PreparedByCost(BalancedRequest(4))),
            GroupedBatchesOf(*PreparedByCost(BalancedRequest(5))));
  const auto first = PreparedByCost(BalancedRequest(4, PolynomialOf({kEdges}), 1));
  const auto second = PreparedByCost(BalancedRequest(4, PolynomialOf({kEdges}), 2));
  EXPECT_NE(CostsByEdges(*first), CostsByEdges(*second));
  EXPECT_EQ(first->identity().rank_groups[0].planned_ranks, 4U);
  EXPECT_EQ(
      PreparedByCost(ShuffledRequest(BalancedRequest(4)))->identity().rank_groups[0].planned_ranks,
      0U);
}

// Two numbers of ranks of one catalog, which shares plans.
TEST(CostOrderTest, RequestsShareNoPlanOfAnotherOrder) {
  EpochCatalog catalog(&CostWorld().store(), CostBounds());
  for (const EpochRequest& request :
       {BalancedRequest(4), BalancedRequest(5), BalancedRequest(4, PolynomialOf({kSquaresOfNodes})),
        ShuffledRequest(BalancedRequest(4))}) {
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
    EXPECT_EQ(GroupedBatchesOf(*epoch), GroupedBatchesOf(*PreparedByCost(request)));
  }
}

// Over epochs each graph is as often at one rank as at another.
TEST(CostOrderTest, AGraphIsEquallyLikelyAtEachRank) {
  constexpr size_t kRanks = 4;
  constexpr uint64_t kEpochs = 150;
  EpochCatalog catalog(&CostWorld().store(), CostBounds());
  std::vector<double> counts(CostWorld().num_graphs() * kRanks);
  for (uint64_t number = 0; number < kEpochs; ++number) {
    EpochRequest request = BalancedRequest(kRanks, PolynomialOf({kSquaresOfNodes}), number);
    request.mixing.is_off = true;
    PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
    for (uint64_t b = 0; b < epoch->identity().num_batches(); ++b) {
      const std::vector<uint32_t> graphs = epoch->GraphsOf(b)->places;
      for (const uint32_t graph : graphs) ++counts[graph * kRanks + b % kRanks];
    }
  }
  // Pearson's statistic over all graphs. The last batches, fewer than there are ranks, are at the
  // first ranks; they are some in a hundred.
  double statistic = 0;
  for (const double count : counts) {
    const double expected = static_cast<double>(kEpochs) / kRanks;
    statistic += (count - expected) * (count - expected) / expected;
  }
  const double freedom = static_cast<double>(CostWorld().num_graphs() * (kRanks - 1));
  // Graphs of a batch are not independent, so the statistic varies more than of single graphs.
  EXPECT_NEAR(statistic / freedom, 1, 0.2);
}

DeviceProfile DeviceOfCosts(double of_nodes, double of_edges, uint32_t shapes = 1) {
  DeviceProfile device;
  device.components = {{1, 300, 10, 0, of_nodes}, {1, 400, 10, 0, of_edges}, {1, 64, 1, 0, 0}};
  device.max_distinct_shapes = shapes;
  return device;
}

EpochRequest RequestOfDevice(DeviceProfile device, Padding padding) {
  EpochRequest request = BalancedRequest(4, std::nullopt);
  request.padding = padding;
  request.rank_groups = {{{}, std::move(device), 4}};
  return request;
}

TEST(CostOrderTest, DevicesCostPaddingToo) {
  // All batches of one shape cost the same.
  const auto padded = PreparedByCost(RequestOfDevice(DeviceOfCosts(1, 2), Padding::kMasked));
  EXPECT_EQ(padded->steps()->efficiency, 1);
  EXPECT_EQ(padded->steps()->of_shuffle, 1);
  // Without padding, they cost as their rows.
  const auto ragged = PreparedByCost(RequestOfDevice(DeviceOfCosts(0, 2), Padding::kNone));
  EXPECT_LT(ragged->steps()->of_shuffle, ragged->steps()->efficiency);
  EXPECT_NEAR(ragged->steps()->efficiency, EfficiencyOfSteps(CostsByEdges(*ragged), 4), 1e-9);
  // Those of several shapes share steps with their like.
  EpochRequest several = RequestOfDevice(DeviceOfCosts(1, 2, 2), Padding::kMasked);
  several.rank_groups[0].device->measured_as = "gin/sim";
  several.rank_groups[0].present = {{300, 30, 64}, {30, 400, 64}};
  const auto shapes = PreparedByCost(several);
  ASSERT_EQ(shapes->shapes(0).size(), 2U);
  EXPECT_LT(shapes->steps()->of_shuffle, shapes->steps()->efficiency);
  std::vector<double> costs;
  for (uint64_t b = 0; b < shapes->identity().num_batches(); ++b) {
    const auto& capacities = shapes->shapes(0)[shapes->Build(b)->shape].capacities;
    costs.push_back(static_cast<double>(capacities[0] + 2 * capacities[1]));
  }
  EXPECT_NEAR(shapes->steps()->efficiency, EfficiencyOfSteps(costs, 4), 1e-9);
}

// An epoch keeps the costs with which it was begun, whatever is measured later; and the request's
// words do not tell them, since workers that come later find others.
TEST(CostOrderTest, MeasuredCostsStayAsTheyWere) {
  EpochRequest request = RequestOfDevice(DeviceOfCosts(1, 1), Padding::kNone);
  request.rank_groups[0].device->measured_as = "gin/sim";
  const auto measured_as = [&](double of_nodes, double of_edges) {
    EpochRequest measured = request;
    measured.rank_groups[0].measured = DeviceOfCosts(of_nodes, of_edges);
    // The limits of the epoch stay as well (measured_limits.h).
    measured.rank_groups[0].present = {{300, 400, 64}};
    return measured;
  };
  const auto begun = PreparedByCost(measured_as(1e-6, 2e-6));
  ASSERT_NE(begun, nullptr);
  EXPECT_THAT(begun->identity().options, HasSubstr("; costs 1e-06*c0 + 2e-06*c1; plan "));
  EpochRequest later = measured_as(7e-6, 1e-6);
  EXPECT_EQ(later.Words(), measured_as(1e-6, 2e-6).Words());
  EXPECT_THAT(later.Words(), Not(HasSubstr("costs")));
  EXPECT_NE(GroupedBatchesOf(*PreparedByCost(later)), GroupedBatchesOf(*begun));
  KeepCosts(begun->identity(), later);
  const auto again = PreparedByCost(later);
  EXPECT_EQ(again->identity(), begun->identity());
  EXPECT_EQ(GroupedBatchesOf(*again), GroupedBatchesOf(*begun));
  // Costs of another number of rank groups or components are none of the request's.
  for (const char* const options : {"; costs 1*c0 | 1*c0; plan", "; costs 1*c9", "; costs x", ""}) {
    EpochIdentity other = begun->identity();
    other.options = options;
    EpochRequest kept = measured_as(7e-6, 1e-6);
    KeepCosts(other, kept);
    EXPECT_TRUE(kept.cost_balanced->begun.empty()) << options;
  }
}

TEST(CostOrderTest, WordsAreThoseOfTheCost) {
  const EpochRequest request = BalancedRequest();
  EXPECT_THAT(request.Words(), HasSubstr("; in steps of like cost by v1: 1*c1"));
  EXPECT_EQ(BalancedRequest(9).Words(), request.Words());
  EXPECT_NE(BalancedRequest(4, PolynomialOf({kSquaresOfNodes})).Words(), request.Words());
  EXPECT_THAT(RequestOfDevice(DeviceOfCosts(1, 2), Padding::kNone).Words(),
              HasSubstr("; in steps of like cost by v1 of devices"));
  EXPECT_EQ(DeviceCostWords(request), "");
  EXPECT_EQ(DeviceCostWords(ShuffledRequest(request)), "");
  // Epochs of before there was an order go on.
  EXPECT_THAT(ShuffledRequest(request).Words(), Not(HasSubstr("cost")));
}

TEST(CostOrderTest, WhatDoesNotGoTogetherIsRefusedByName) {
  const auto refused = [](const EpochRequest& request, const std::string& with) {
    EpochCatalog catalog(&CostWorld().store(), CostBounds());
    const auto prepared = request.segments         ? catalog.PrepareSegmented(request).status()
                          : !request.kinds.empty() ? catalog.PrepareKind(request).status()
                                                   : catalog.Prepare(request).status();
    EXPECT_THAT(prepared, StatusIs(absl::StatusCode::kInvalidArgument,
                                   AllOf(HasSubstr("order.cost_balanced"), HasSubstr(with))));
  };
  EpochRequest request = BalancedRequest();
  request.in_order = true;
  refused(request, "in_order");
  request = BalancedRequest();
  request.segments = SegmentsRequest{250, 2};
  refused(request, "segments.tracks");
  request = BalancedRequest(0);
  request.segments = SegmentsRequest{250, 1};
  refused(request, "rank group 0 has 0 ranks");
  request = BalancedRequest();
  request.kinds.push_back(std::make_shared<JoinedParts>());
  refused(request, "join_parts");
  refused(BalancedRequest(0), "rank group 0 has 0 ranks, must be 1 to 65536");
  refused(BalancedRequest(65537), "has 65537 ranks");
  EXPECT_NE(PreparedByCost(BalancedRequest(65536)), nullptr);
  // Costs of devices, without a device.
  refused(BalancedRequest(4, std::nullopt), "rank group 0 has no device profile");
}

}  // namespace
}  // namespace packhouse
