#include "service/engine/epochs/epoch_batches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
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

using SizeMultiset = std::vector<std::vector<uint32_t>>;

SizeMultiset SizesOf(const ItemSizes& sizes, absl::Span<const uint32_t> items) {
  SizeMultiset multiset;
  for (const uint32_t item : items) {
    multiset.emplace_back(sizes.tuple(item).begin(), sizes.tuple(item).end());
  }
  std::sort(multiset.begin(), multiset.end());
  return multiset;
}

// How often each multiset of sizes is a batch.
std::map<SizeMultiset, uint64_t> Compositions(const ItemSizes& sizes, const EpochBatches& epoch) {
  std::map<SizeMultiset, uint64_t> counts;
  for (const auto& batch : AllBatches(epoch)) ++counts[SizesOf(sizes, batch)];
  return counts;
}

std::map<SizeMultiset, uint64_t> Compositions(const PackingPlan& plan) {
  std::map<SizeMultiset, uint64_t> counts;
  for (const Pattern& pattern : plan.patterns) {
    SizeMultiset multiset;
    for (const auto& [tuple, copies] : pattern.entries) {
      const auto counts_of = plan.tuple(tuple);
      multiset.insert(multiset.end(), copies,
                      std::vector<uint32_t>(counts_of.begin(), counts_of.end()));
    }
    std::sort(multiset.begin(), multiset.end());
    counts[multiset] += pattern.repeats;
  }
  return counts;
}

std::vector<uint32_t> SortedItems(const EpochBatches& epoch) {
  std::vector<uint32_t> items;
  for (const auto& batch : AllBatches(epoch)) {
    items.insert(items.end(), batch.begin(), batch.end());
  }
  std::sort(items.begin(), items.end());
  return items;
}

std::vector<uint32_t> UpTo(size_t n) {
  std::vector<uint32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Conservation, and the plan is kept: in every epoch each item is in one batch, and batches have
// the sizes of the patterns as often as the plan repeats them.
TEST(DrawEpochTest, EveryEpochDealsEachItemOnceInTheSizesOfThePlan) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const std::vector<uint32_t> counts = FewSizes(seed % 61, seed);
    const ItemSizes sizes = NodesAndEdges(counts);
    const Limits limits = Limits::Create({12, 14, 1 + seed % 7}).value();
    PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(sizes));
    const PackingPlan plan = QuickPlan(classes, limits);
    for (const uint64_t epoch : {0, 1, 77}) {
      const EpochBatches batches = Draw(classes, plan, {seed, epoch});
      EXPECT_EQ(SortedItems(batches), UpTo(sizes.num_items()));
      EXPECT_EQ(Compositions(sizes, batches), Compositions(plan));
      EXPECT_THAT(batches.first_batches(), ElementsAre(0, plan.num_packs()));
    }
  }
}

TEST(DrawEpochTest, SameArgumentsSameBatchesOtherSeedOrEpochOtherOnes) {
  const std::vector<uint32_t> counts = FewSizes(200, 1);
  const ItemSizes sizes = NodesAndEdges(counts);
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(sizes));
  const PackingPlan plan = QuickPlan(classes, Limits::Create({12, 14, kUnlimited}).value());
  std::set<std::vector<std::vector<uint32_t>>> different;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (uint64_t epoch = 0; epoch < 20; ++epoch) {
      const auto batches = AllBatches(Draw(classes, plan, {seed, epoch}));
      EXPECT_EQ(batches, AllBatches(Draw(classes, plan, {seed, epoch})));
      // The batches differ in content, and not only in order.
      auto composition = batches;
      for (auto& batch : composition) std::sort(batch.begin(), batch.end());
      std::sort(composition.begin(), composition.end());
      different.insert(composition);
    }
  }
  EXPECT_EQ(different.size(), 400U);
}

// What a seed means must not change from release to release.
TEST(DrawEpochTest, GivesTheSameItemsInEveryRelease) {
  const std::vector<uint32_t> counts = {1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1};
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(NodesAndEdges(counts)));
  const std::vector<Pattern> patterns = {{{{0, 1}, {1, 1}}, 3}, {{{0, 1}}, 1}};
  PH_ASSERT_OK_AND_ASSIGN(const EpochBatches epoch,
                          DrawEpoch(classes, absl::MakeConstSpan(&patterns, 1), {42, 5}));
  EXPECT_THAT(AllBatches(epoch),
              ElementsAre(ElementsAre(4, 5), ElementsAre(0, 3), ElementsAre(2, 1), ElementsAre(6)));
}

// Chi-square: with 5 items of one size and 5 places of it, 20,000 epochs. The statistic over 25
// cells has 16 degrees of freedom; 45 is exceeded with a probability below 2e-4.
TEST(DrawEpochTest, EachItemIsEquallyLikelyAtEachPlaceOfItsSize) {
  constexpr uint64_t kEpochs = 20000;
  const std::vector<uint32_t> counts = {1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1};
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(NodesAndEdges(counts)));
  // Places of size (1, 1): two in the batch with both larger ones, three alone.
  const std::vector<Pattern> patterns = {{{{0, 2}, {1, 2}}, 1}, {{{0, 1}}, 3}};
  std::map<std::pair<uint32_t, size_t>, uint64_t> seen;  // (item, place)
  std::map<size_t, uint64_t> first_batch_size;
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(const EpochBatches batches,
                            DrawEpoch(classes, absl::MakeConstSpan(&patterns, 1), {9, epoch}));
    size_t next_single = 2;
    for (const auto& batch : AllBatches(batches)) {
      if (batch.size() == 1) {
        ++seen[{batch[0], next_single++}];
      } else {
        ++seen[{batch[0], 0}];
        ++seen[{batch[1], 1}];
      }
    }
    ++first_batch_size[batches.batch(0).size()];
  }
  const double expected = kEpochs / 5.0;
  double chi_square = 0;
  for (const uint32_t item : {0U, 2U, 4U, 5U, 6U}) {
    for (size_t place = 0; place < 5; ++place) {
      const double difference = static_cast<double>(seen[{item, place}]) - expected;
      chi_square += difference * difference / expected;
    }
  }
  EXPECT_LT(chi_square, 45);
  EXPECT_GT(chi_square, 4);
  // The large batch is the first of four in a quarter of the epochs: 5000, deviation 61.
  EXPECT_NEAR(static_cast<double>(first_batch_size[4]), 5000, 250);
}

TEST(DrawEpochTest, BatchesOfRankGroupsFollowEachOtherAndShareTheItems) {
  const std::vector<uint32_t> counts = FewSizes(60, 3);
  const ItemSizes sizes = NodesAndEdges(counts);
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(sizes));
  // Half of each class for either rank group, one item a batch.
  std::vector<std::vector<Pattern>> patterns(2);
  for (uint32_t c = 0; c < classes.num_classes(); ++c) {
    const uint64_t half = classes.items(c).size() / 2;
    if (half != 0) patterns[0].push_back({{{c, 1}}, half});
    patterns[1].push_back({{{c, 1}}, classes.items(c).size() - half});
  }
  std::set<std::vector<uint32_t>> first_rank_groups;
  for (uint64_t epoch = 0; epoch < 10; ++epoch) {
    PH_ASSERT_OK_AND_ASSIGN(const EpochBatches batches, DrawEpoch(classes, patterns, {1, epoch}));
    EXPECT_EQ(SortedItems(batches), UpTo(60));
    ASSERT_EQ(batches.first_batches().size(), 3U);
    std::map<std::vector<uint32_t>, uint64_t> of_first;
    std::vector<uint32_t> items;
    for (uint64_t b = 0; b < batches.first_batches()[1]; ++b) {
      items.push_back(batches.batch(b)[0]);
      ++of_first[{sizes.tuple(items.back()).begin(), sizes.tuple(items.back()).end()}];
    }
    for (uint32_t c = 0; c < classes.num_classes(); ++c) {
      EXPECT_EQ((of_first[{classes.tuple(c).begin(), classes.tuple(c).end()}]),
                classes.items(c).size() / 2);
    }
    std::sort(items.begin(), items.end());
    first_rank_groups.insert(items);
  }
  EXPECT_EQ(first_rank_groups.size(), 10U);
}

TEST(DrawEpochTest, RefusesPatternsThatDoNotUseUpTheItems) {
  const std::vector<uint32_t> counts = {1, 1, 1, 1, 2, 2};
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(NodesAndEdges(counts)));
  const auto draw = [&](std::vector<Pattern> patterns) {
    return DrawEpoch(classes, absl::MakeConstSpan(&patterns, 1), {}).status();
  };
  EXPECT_THAT(draw({{{{0, 2}, {1, 1}}, 1}}), IsOk());
  EXPECT_EQ(
      draw({{{{0, 1}, {1, 1}}, 1}}),
      absl::InvalidArgumentError("plan: has places for 1 graphs of size (1, 1), there are 2"));
  EXPECT_THAT(draw({{{{0, 2}, {1, 2}}, 1}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of size (2, 2)")));
  EXPECT_EQ(draw({{{{2, 1}}, 1}}),
            absl::InvalidArgumentError("plan: 1 copies of size number 2, there are 2 sizes"));
  EXPECT_EQ(draw({{{{1, 0}}, 1}}),
            absl::InvalidArgumentError("plan: 0 copies of size number 1, there are 2 sizes"));
  const absl::Status empty = absl::InvalidArgumentError("plan: a pattern without graphs");
  EXPECT_EQ(draw({{{}, uint64_t{1} << 63}}), empty);
  EXPECT_EQ(draw({{{{0, 2}, {1, 1}}, 1}, {{{0, 1}}, 0}}), empty);
  const absl::Status beyond =
      absl::InvalidArgumentError("plan: the graphs of size number 0 exceed 2^64 - 1");
  EXPECT_EQ(draw({{{{0, 4}}, uint64_t{1} << 62}}), beyond);
  EXPECT_EQ(draw({{{{0, 1}}, ~uint64_t{0}}, {{{0, 1}}, 1}}), beyond);
}

TEST(DrawEpochTest, EachItemOfAGroupedEpochHasAGroup) {
  const std::vector<uint32_t> counts = {1, 1, 1, 1};
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(NodesAndEdges(counts)));
  const std::vector<Pattern> patterns = {{{{0, 2}}, 1}};
  const auto draw = [&](const std::vector<uint64_t>& ids) {
    return DrawEpoch(classes, absl::MakeConstSpan(&patterns, 1), {1, 1}, ids).status();
  };
  EXPECT_EQ(draw({5, 6}), absl::OkStatus());
  EXPECT_EQ(draw({5}), absl::InvalidArgumentError("group_ids: 1 of them, item 1 has none"));
}

// Where a group is does not matter, nor how many there are: they are in the order of a hash of
// their ids.
TEST(DrawEpochTest, ManyGroupsAreInTheOrderOfTheirIds) {
  constexpr size_t kItems = 40'000;
  const std::vector<uint32_t> counts(2 * kItems, 1);
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(NodesAndEdges(counts)));
  const std::vector<Pattern> patterns = {{{{0, 1}}, kItems}};
  const auto order_of = [&](const std::vector<uint64_t>& ids) {
    const EpochBatches epoch =
        DrawEpoch(classes, absl::MakeConstSpan(&patterns, 1), {1, 1}, ids).value();
    std::vector<uint64_t> order;
    for (size_t b = 0; b < kItems; ++b) order.push_back(ids[epoch.batch(b)[0]]);
    return order;
  };
  std::vector<uint64_t> ids(kItems);
  std::iota(ids.begin(), ids.end(), uint64_t{7});
  const std::vector<uint64_t> order = order_of(ids);
  std::reverse(ids.begin(), ids.end());
  EXPECT_TRUE(order_of(ids) == order);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
}

TEST(DrawEpochTest, AnEmptyDataSetHasNoBatches) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(NodesAndEdges({})));
  const std::vector<Pattern> patterns;
  PH_ASSERT_OK_AND_ASSIGN(const EpochBatches epoch,
                          DrawEpoch(classes, absl::MakeConstSpan(&patterns, 1), {}));
  EXPECT_EQ(epoch.num_batches(), 0U);
  EXPECT_THAT(epoch.first_batches(), ElementsAre(0, 0));
}

// Table rows: no component but `graphs`.
TEST(DrawEpochTest, ItemsWithoutComponentsAreOfOneSize) {
  PH_ASSERT_OK_AND_ASSIGN(const ItemSizes sizes, ItemSizes::Create(10, 0, {}));
  PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(sizes));
  ASSERT_EQ(classes.num_classes(), 1U);
  const PackingPlan plan = QuickPlan(classes, Limits::Create({4}).value());
  const EpochBatches epoch = Draw(classes, plan, {1, 1});
  EXPECT_EQ(epoch.num_batches(), 3U);
  EXPECT_EQ(SortedItems(epoch), UpTo(10));
}

TEST(SizeClassesTest, TuplesAndCountsAreThoseOfThePlansHistogram) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<uint32_t> counts = FewSizes(1 + seed, seed);
    const ItemSizes sizes = NodesAndEdges(counts);
    PH_ASSERT_OK_AND_ASSIGN(const SizeClasses classes, SizeClasses::Create(sizes));
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram histogram, classes.Histogram());
    EXPECT_EQ(histogram.num_graphs(), sizes.num_items());
    EXPECT_EQ(ItemsOf(histogram).empty_plan.tuples,
              std::vector<uint32_t>(classes.tuples().begin(), classes.tuples().end()));
    for (size_t c = 0; c < classes.num_classes(); ++c) {
      EXPECT_EQ(histogram.CountOf(classes.tuple(c)), classes.items(c).size());
      for (const uint32_t item : classes.items(c)) EXPECT_EQ(sizes.tuple(item), classes.tuple(c));
    }
  }
}

TEST(SizeClassesTest, ASelectionMayRepeatItemsButNotNameOthers) {
  const std::vector<uint32_t> counts = FewSizes(5, 1);
  PH_ASSERT_OK_AND_ASSIGN(
      const SizeClasses classes,
      SizeClasses::Create(NodesAndEdges(counts), std::vector<uint32_t>{4, 4, 0}));
  EXPECT_EQ(classes.num_items(), 3U);
  EXPECT_THAT(
      SizeClasses::Create(NodesAndEdges(counts), std::vector<uint32_t>{0, 5}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("item 5, the data set has 5 items")));
}

TEST(PackInOrderTest, KeepsTheOrderWithinTheLookAhead) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<uint32_t> counts = FewSizes(300, seed);
    const ItemSizes sizes = NodesAndEdges(counts);
    const Limits limits = Limits::Create({20, 24, kUnlimited}).value();
    constexpr size_t kLookAhead = 8;
    PH_ASSERT_OK_AND_ASSIGN(const EpochBatches epoch,
                            PackInOrder(sizes, std::nullopt, limits, kLookAhead));
    EXPECT_EQ(SortedItems(epoch), UpTo(300));
    for (const auto& batch : AllBatches(epoch)) {
      uint64_t nodes = 0;
      uint64_t edges = 0;
      for (const uint32_t item : batch) {
        nodes += sizes.tuple(item)[0];
        edges += sizes.tuple(item)[1];
      }
      EXPECT_LE(nodes, 20U);
      EXPECT_LE(edges, 24U);
    }
    // The first of a batch is the oldest that waits: at most a look-ahead and what is open is
    // newer.
    uint32_t newest = 0;
    for (const auto& batch : AllBatches(epoch)) {
      EXPECT_LE(newest, batch[0] + kLookAhead + 2 * batch.size() + 32);
      newest = std::max(newest, *std::max_element(batch.begin(), batch.end()));
    }
  }
}

TEST(PackInOrderTest, WithALookAheadOfOneItIsNextFit) {
  const std::vector<uint32_t> counts = {3, 0, 3, 0, 5, 0, 1, 0, 6, 0};
  PH_ASSERT_OK_AND_ASSIGN(
      const EpochBatches epoch,
      PackInOrder(NodesAndEdges(counts), std::nullopt, Limits::Create({6, 9, 9}).value(), 1));
  EXPECT_THAT(AllBatches(epoch), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(PackInOrderTest, NamesAnItemThatDoesNotFit) {
  const std::vector<uint32_t> counts = {3, 0, 7, 0};
  EXPECT_THAT(
      PackInOrder(NodesAndEdges(counts), std::nullopt, Limits::Create({6, 9, 9}).value(), 4),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("item 1: graph of size (7, 0)")));
}

}  // namespace
}  // namespace packhouse
