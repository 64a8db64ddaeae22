#include "service/algorithms/planning/plan.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/baselines/tuple_packing.h"
#include "service/algorithms/planning/plan_memory.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

testing::Matcher<absl::Status> IsCorrupt(const char* part) {
  return StatusIs(absl::StatusCode::kInternal, HasSubstr(part));
}

// What is asked for, in this order, and that nothing is given after a refusal.
TEST(PlanMemoryTest, IsAskedForInLargeSteps) {
  std::vector<uint64_t> asked;
  bool has_room = true;
  PlanMemory memory([&](uint64_t bytes) {
    asked.push_back(bytes);
    return has_room;
  });
  constexpr uint64_t kLeast = 1 << 14;
  // Each list has an eighth more than it needs, and the least.
  EXPECT_TRUE(memory.HoldList(800));
  EXPECT_TRUE(memory.HoldList(900 + kLeast));
  constexpr uint64_t kLonger = 901 + kLeast;
  EXPECT_TRUE(memory.HoldList(kLonger));
  EXPECT_TRUE(memory.HoldMore(10));
  EXPECT_TRUE(memory.HoldMore(kLeast - 10));
  EXPECT_TRUE(memory.HoldMore(1));
  EXPECT_TRUE(memory.HoldMore(2 * kLeast));
  EXPECT_TRUE(memory.HoldMore(kLeast - 1));
  EXPECT_THAT(asked, ElementsAre(7 * (900 + kLeast), 7 * (kLonger + kLonger / 8 - 900), kLeast,
                                 kLeast, 2 * kLeast));
  has_room = false;
  EXPECT_FALSE(memory.refused());
  EXPECT_FALSE(memory.HoldMore(1));
  EXPECT_TRUE(memory.refused());
  has_room = true;
  EXPECT_FALSE(memory.HoldMore(0));
  EXPECT_FALSE(memory.HoldList(1));
  EXPECT_EQ(asked.size(), 6U);
}

TEST(PlanMemoryTest, BytesOfPatternsAreThoseOfTheirList) {
  Pattern pattern;
  pattern.entries.reserve(5);
  const uint64_t of_list = 3 * sizeof(Pattern) + 16;
  EXPECT_EQ(BytesInList(pattern), of_list + 5 * 8);
  EXPECT_EQ(BytesOfPatterns({pattern, Pattern()}), 2 * of_list);  // A copy has no spare room.
}

// Three sizes in two kinds of packs, at (10, 20) and three graphs.
class VerifyPlanTest : public testing::Test {
 protected:
  const SizeHistogram histogram_ = HistogramOf(2, {{{1, 2}, 4}, {{3, 8}, 2}, {{7, 4}, 3}});
  const Limits limits_ = LimitsOf({10, 20, 3});
  PackingPlan plan_ = {
      2, {1, 2, 3, 8, 7, 4}, {{{{2, 1}, {1, 1}}, 2}, {{{2, 1}, {0, 2}}, 1}, {{{0, 2}}, 1}}};

  absl::Status Verify() const { return VerifyPlan(plan_, histogram_, limits_); }
};

TEST_F(VerifyPlanTest, AGoodPlan) {
  EXPECT_THAT(Verify(), IsOk());
  EXPECT_EQ(plan_.num_packs(), 4);
  EXPECT_EQ(plan_.num_tuples(), 3);
}

TEST_F(VerifyPlanTest, AGraphTooFew) {
  plan_.patterns.pop_back();
  EXPECT_THAT(Verify(), IsCorrupt("packs 2 graphs of size (1, 2), the histogram has 4"));
}

TEST_F(VerifyPlanTest, AGraphTooMany) {
  plan_.patterns.push_back({{{0, 1}}, 1});
  EXPECT_THAT(Verify(), IsCorrupt("packs 5 graphs of size (1, 2), the histogram has 4"));
}

TEST_F(VerifyPlanTest, WrongRepeats) {
  plan_.patterns[0].repeats = 3;
  EXPECT_THAT(Verify(), IsCorrupt("the histogram has"));
}

TEST_F(VerifyPlanTest, OverfullInAComponent) {
  // 4 * (1, 2) + (7, 4) has 11 nodes.
  plan_.patterns[1].entries[1].copies = 4;
  plan_.patterns.pop_back();
  EXPECT_THAT(VerifyPlan(plan_, histogram_, LimitsOf({10, 20, 9})),
              IsCorrupt("11 rows of component 0, capacity 10"));
  EXPECT_THAT(VerifyPlan(plan_, histogram_, LimitsOf({11, 11, 9})),
              IsCorrupt("12 rows of component 1, capacity 11"));
  EXPECT_THAT(VerifyPlan(plan_, histogram_, LimitsOf({11, 12, 4})),
              IsCorrupt("5 rows of component 2, capacity 4"));
  EXPECT_THAT(VerifyPlan(plan_, histogram_, LimitsOf({11, 12, 5})), IsOk());
}

TEST_F(VerifyPlanTest, EmptyPatternsAndZeros) {
  const PackingPlan good = plan_;
  plan_.patterns.push_back({{}, 1});
  EXPECT_THAT(Verify(), IsCorrupt("an empty pattern"));
  plan_ = good;
  plan_.patterns.push_back({{{0, 1}}, 0});
  EXPECT_THAT(Verify(), IsCorrupt("0 repeats"));
  plan_ = good;
  plan_.patterns[0].entries.push_back({0, 0});
  EXPECT_THAT(Verify(), IsCorrupt("entry of 0 times tuple 0"));
}

TEST_F(VerifyPlanTest, UnknownTuples) {
  plan_.patterns[2].entries[0].tuple = 3;
  EXPECT_THAT(Verify(), IsCorrupt("times tuple 3"));
}

TEST_F(VerifyPlanTest, TuplesThatTheHistogramLacks) {
  plan_.tuples[1] = 3;
  EXPECT_THAT(Verify(), IsCorrupt("graphs of size (1, 3), the histogram has 0"));
}

TEST_F(VerifyPlanTest, TuplesThatThePlanLacks) {
  plan_ = {2, {1, 2, 7, 4}, {{{{1, 1}}, 3}, {{{0, 2}}, 2}}};
  EXPECT_THAT(Verify(), IsCorrupt("packs 7 graphs of 9"));
}

TEST_F(VerifyPlanTest, ATupleListedTwice) {
  plan_.tuples.insert(plan_.tuples.end(), {1, 2});
  plan_.patterns.push_back({{{3, 2}}, 2});
  EXPECT_THAT(Verify(), IsCorrupt("packs 13 graphs of 9"));
}

// Numbers that agree only because they wrap around: 2 * (2^63 + 1) = 2.
TEST_F(VerifyPlanTest, CountsThatWrapAround) {
  plan_.patterns[2].repeats += uint64_t{1} << 63;
  EXPECT_THAT(Verify(), IsCorrupt("2^64 - 1"));
}

TEST_F(VerifyPlanTest, SumsThatWrapAround) {
  plan_.patterns.push_back({{{0, 1}}, UINT64_MAX});
  plan_.patterns.push_back({{{0, 1}}, 1});
  EXPECT_THAT(Verify(), IsCorrupt("2^64 - 1"));
}

TEST_F(VerifyPlanTest, AnotherNumberOfComponents) {
  plan_.num_components = 3;
  EXPECT_THAT(Verify(), IsCorrupt("3 components"));
  plan_.num_components = 0;
  EXPECT_THAT(Verify(), IsCorrupt("0 components"));
  EXPECT_THAT(VerifyPlan(PackingPlan(), SizeHistogram(2), limits_), IsCorrupt("0 components"));
}

// Any single number of a plan that is changed is noticed.
TEST(VerifyPlanRandomTest, EveryChangeIsNoticed) {
  int changes = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_distinct = 12});
    WorkBudget budget;
    PH_ASSERT_OK_AND_ASSIGN(
        const PackingPlan plan,
        PlanByTuplePacking(histogram, limits, {}, PlacementRule::kBestFit, budget));
    ASSERT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
    if (plan.patterns.empty()) continue;
    for (int i = 0; i < 20; ++i) {
      PackingPlan corrupt = plan;
      Pattern& pattern = corrupt.patterns[random.Below(plan.patterns.size())];
      PatternEntry& entry = pattern.entries[random.Below(pattern.entries.size())];
      switch (random.Below(4)) {
        case 0:
          pattern.repeats += random.Between(1, UINT64_MAX);
          break;
        case 1:
          entry.copies += static_cast<uint32_t>(random.Between(1, UINT32_MAX));
          break;
        case 2:
          entry.tuple += static_cast<uint32_t>(random.Between(1, UINT32_MAX));
          break;
        default:
          // A size that some pack has.
          corrupt.tuples[entry.tuple * plan.num_components + random.Below(plan.num_components)] +=
              static_cast<uint32_t>(random.Between(1, UINT32_MAX));
          break;
      }
      EXPECT_THAT(VerifyPlan(corrupt, histogram, limits), IsCorrupt("plan: "));
      ++changes;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(changes, 3000);
}

TEST(ItemsOfTest, TuplesAscendWithTheirCounts) {
  const PlanItems items = ItemsOf(HistogramOf(2, {{{3, 1}, 5}, {{1, 9}, 6}, {{3, 0}, 7}}));
  EXPECT_THAT(items.empty_plan.tuples, ElementsAre(1, 9, 3, 0, 3, 1));
  EXPECT_THAT(items.counts, ElementsAre(6, 7, 5));
  EXPECT_EQ(items.empty_plan.num_components, 2);
  EXPECT_THAT(items.empty_plan.patterns, IsEmpty());
}

TEST(CheckEachGraphFitsTest, NamesTheLargestAndHowMany) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  const SizeHistogram histogram = HistogramOf(2, {{{10, 20}, 4}, {{11, 3}, 2}, {{12, 25}, 3}});
  EXPECT_THAT(CheckEachGraphFits(histogram, LimitsOf({12, 25, 1}), schema), IsOk());
  EXPECT_THAT(CheckEachGraphFits(histogram, LimitsOf({10, 20, kUnlimited}), schema),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "5 graphs exceed the limits; the largest has size (12, 25): nodes 12 > 10; "
                       "sizes too large: 3 x (12, 25), 2 x (11, 3)"));
  EXPECT_THAT(CheckEachGraphFits(histogram, LimitsOf({kUnlimited, 20, kUnlimited}), schema),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "3 graphs exceed the limits; the largest has size (12, 25): edges 25 > 20"));
  EXPECT_THAT(CheckEachGraphFits(SizeHistogram(2), LimitsOf({1, 1, 1}), schema), IsOk());
  EXPECT_THAT(CheckEachGraphFits(HistogramOf(1, {{{7}, 1}}), LimitsOf({6, 1}),
                                 SizeSchema::Create({"nodes"}).value(), {6, 2}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "1 graph exceeds the limits; the largest has size (7): nodes 7 > 6"));
  // What can be used of capacities, and why not all of it.
  EXPECT_THAT(CheckEachGraphFits(histogram, LimitsOf({11, 25, 1}), schema, {12, 25, 2}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "3 graphs exceed the limits; the largest has size (12, 25): nodes 12 > 11, "
                       "the usable bound: padding keeps 1 of the 12 free"));
}

TEST(CheckEachGraphFitsTest, NamesEightSizesAtMost) {
  SizeHistogram histogram(1);
  for (uint32_t nodes = 1; nodes <= 20; ++nodes) ASSERT_THAT(histogram.Add({nodes}, 1), IsOk());
  EXPECT_THAT(
      CheckEachGraphFits(histogram, LimitsOf({10, 1}), SizeSchema::Create({"nodes"}).value()),
      StatusIs(absl::StatusCode::kOutOfRange,
               "10 graphs exceed the limits; the largest has size (20): nodes 20 > 10; sizes too "
               "large: 1 x (20), 1 x (19), 1 x (18), 1 x (17), 1 x (16), 1 x (15), 1 x (14), 1 x "
               "(13) and 2 more"));
}

TEST(MeasurePlanTest, Figures) {
  // Packs (7 + 3, 4 + 8) twice and (1 + 1, 2 + 2) once.
  const SizeHistogram histogram = HistogramOf(2, {{{1, 2}, 2}, {{3, 8}, 2}, {{7, 4}, 2}});
  const PackingPlan plan = {2, {1, 2, 3, 8, 7, 4}, {{{{2, 1}, {1, 1}}, 2}, {{{0, 2}}, 1}}};
  const Limits limits = LimitsOf({11, kUnlimited, 4});
  ASSERT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
  const PlanQuality quality = MeasurePlan(plan, histogram, limits);
  EXPECT_EQ(quality.packs, 3);
  EXPECT_EQ(quality.lower_bound, 2);
  EXPECT_EQ(quality.bounding_component, 0);
  EXPECT_DOUBLE_EQ(quality.gap, 0.5);
  ASSERT_EQ(quality.components.size(), 3);

  const ComponentEfficiency& nodes = quality.components[0];
  EXPECT_EQ(nodes.capacity, 11);
  EXPECT_EQ(nodes.fullest_pack, 10);
  EXPECT_DOUBLE_EQ(nodes.efficiency, 22.0 / 33);
  EXPECT_DOUBLE_EQ(nodes.efficiency_of_fullest, 22.0 / 30);

  const ComponentEfficiency& edges = quality.components[1];
  EXPECT_EQ(edges.capacity, kUnlimited);
  EXPECT_EQ(edges.fullest_pack, 12);
  EXPECT_EQ(edges.efficiency, 1);
  EXPECT_DOUBLE_EQ(edges.efficiency_of_fullest, 28.0 / 36);

  const ComponentEfficiency& graphs = quality.components[2];
  EXPECT_EQ(graphs.fullest_pack, 2);
  EXPECT_DOUBLE_EQ(graphs.efficiency, 6.0 / 12);
  EXPECT_DOUBLE_EQ(graphs.efficiency_of_fullest, 6.0 / 6);
}

TEST(MeasurePlanTest, AnEmptyPlanWastesNothing) {
  PackingPlan plan;
  plan.num_components = 1;
  const PlanQuality quality = MeasurePlan(plan, SizeHistogram(1), LimitsOf({10, 2}));
  EXPECT_EQ(quality.packs, 0);
  EXPECT_EQ(quality.lower_bound, 0);
  EXPECT_EQ(quality.gap, 0);
  for (const ComponentEfficiency& component : quality.components) {
    EXPECT_EQ(component.efficiency, 1);
    EXPECT_EQ(component.efficiency_of_fullest, 1);
  }
}

TEST(MeasurePlanTest, EfficienciesAreRatios) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    WorkBudget budget;
    PH_ASSERT_OK_AND_ASSIGN(
        const PackingPlan plan,
        PlanByTuplePacking(histogram, limits, {}, PlacementRule::kFirstFit, budget));
    const PlanQuality quality = MeasurePlan(plan, histogram, limits);
    EXPECT_GE(quality.gap, 0);
    EXPECT_TRUE(limits.has_limit(quality.bounding_component) || plan.patterns.empty());
    for (size_t k = 0; k < quality.components.size(); ++k) {
      const ComponentEfficiency& component = quality.components[k];
      EXPECT_GE(component.efficiency, 0);
      EXPECT_LE(component.efficiency_of_fullest, 1);
      if (limits.has_limit(k)) {
        EXPECT_LE(component.efficiency, component.efficiency_of_fullest);
      }
    }
  }
}

// An entry holds 32 bits of copies; a pack of graphs without rows may hold more.
TEST(AddCopiesTest, MoreThanAnEntryHoldsAreSeveralEntries) {
  for (const uint64_t copies :
       {uint64_t{0}, uint64_t{1}, uint64_t{UINT32_MAX}, uint64_t{1} << 32, uint64_t{7} << 32}) {
    SCOPED_TRACE(testing::Message() << copies);
    Pattern pattern;
    AddCopies(3, copies, pattern);
    uint64_t added = 0;
    for (const PatternEntry& entry : pattern.entries) {
      EXPECT_EQ(entry.tuple, 3);
      EXPECT_GT(entry.copies, 0);
      added += entry.copies;
    }
    EXPECT_EQ(added, copies);
  }
}

}  // namespace
}  // namespace packhouse
