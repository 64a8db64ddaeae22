// Whole answers of the tuner: each sentence, and each number.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/budgeted_plan.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/optimizer/plan_receipt.h"
#include "service/algorithms/planning/optimizer/planner_bytes.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/algorithms/planning/tuning/tuning_reasons.h"
#include "tests/planning/plan_fingerprint.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/scarce_worlds.h"
#include "tests/planning/tuning/tuning_worlds.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

// What a search knew and found, with all that there are sentences about.
class TuningReasonsTest : public testing::Test {
 protected:
  static TunedShape Shape(std::vector<uint64_t> capacities, uint64_t packs, double epoch_cost) {
    TunedShape shape;
    shape.capacities = std::move(capacities);
    shape.packs = packs;
    shape.lower_bound = packs;
    shape.epoch_cost = epoch_cost;
    return shape;
  }
  void Recommend(TunedShape shape) {
    result_.shapes = {shape};
    result_.epoch_cost = shape.epoch_cost;
    result_.cheapest_shape = shape;
    result_.single_shape = std::move(shape);
  }
  void Count(const std::vector<std::pair<std::vector<uint32_t>, uint64_t>>& graphs) {
    for (const auto& [tuple, count] : graphs) EXPECT_THAT(graphs_.Add(tuple, count), IsOk());
  }
  std::vector<std::string> Reasons() const {
    return TuningReasons(result_, profile_, SizeSchema::NodesAndEdges(), graphs_, options_, facts_);
  }

  TuneResult result_;
  DeviceProfile profile_;
  SizeHistogram graphs_{2};
  TuneOptions options_;
  TuningFacts facts_ = {.candidates = 40,
                        .planned = 12,
                        .all_looked_at = true,
                        .possible_gain = std::nullopt,
                        .bound_name = "volume of edges"};
};

TEST_F(TuningReasonsTest, OfOneShapeByItsCost) {
  profile_.components = {{1, 100, 10, 8, 1, 1}, {1, 50, 1, 100, 2}, {1, 16, 1, 0, 0, 1}};
  profile_.memory_bytes = 5399;
  Count({{{5, 7}, 30}});
  Recommend(Shape({39, 50, 5}, 6, 840));
  result_.single_shape.lower_bound = 5;
  result_.single_shape.batch_bytes = 5320;
  result_.cheapest_shape = Shape({29, 40, 5}, 7, 770);
  result_.least_cost = 700;
  result_.frontier = {Shape({9, 10, 5}, 30, 900), Shape({19, 20, 5}, 15, 860),
                      Shape({19, 25, 5}, 12, 798), result_.cheapest_shape};
  result_.oversize = OversizeGraphs{.num_graphs = 3,
                                    .num_apart = 1,
                                    .num_shapes = 1,
                                    .largest = {101, 7},
                                    .needed_rows = {110, 50, 2},
                                    .needed_bytes = 5880};
  options_.equal_cost = 0.1;
  EXPECT_THAT(
      Reasons(),
      ElementsAre(
          "6 packs of nodes 40, edges 50, graphs 6 cost 840 an epoch, 20 % more than the real "
          "rows, which no limits can undercut.",
          "A plan for this shape needs at least 5 packs by the volume of edges; 6 were found.",
          "graphs 6 forces 6 packs, where the components that have a cost need 5: a larger "
          "max_rows of graphs would cost less.",
          "Shapes that cost at most 10 % more than the cheapest count as equal, and of these one "
          "with the fewest packs is recommended, since a step costs a device something whatever "
          "its batch holds: the cheapest, nodes 30, edges 40, graphs 6, needs 7 packs and saves "
          "8.33 %. The profile's fixed_cost says what a step costs.",
          "12 of 40 candidates were planned; bounds exclude the others.",
          "nodes must be a multiple of 10.", "edges 50 is the most that max_rows allows.",
          "Padding keeps 1 of nodes and 1 of graphs free in each batch.",
          "A batch takes 5320 of 5399 bytes, which leave no room for more nodes.",
          "The smallest of the shapes tried, nodes 10, edges 10, graphs 6, costs 7.14 % more an "
          "epoch.",
          "A shape half as large, nodes 20, edges 25, graphs 6, costs 5 % less an epoch.",
          "2 graphs are too large for any allowed limits, and 1 graph does not fit one shape "
          "together with the others, though each fits allowed limits of its own; the largest has "
          "nodes 101, edges 7. max_rows 110 of nodes and memory_bytes 5880 would take all.",
          "More shapes (max_distinct_shapes, at present 1) would take more graphs."));
}

TEST_F(TuningReasonsTest, OfOneShapeByTheMean) {
  profile_.components = {{1, 100, 1, 0, 1}, {20, 100, 1, 0, 1}, {1, 64, 1, 0, 0, 1, true}};
  profile_.measured_as = "gin/h100";
  Count({{{12, 3}, 2}, {{6, 9}, 4}});
  Recommend(Shape({12, 20, 1}, 6, 192));
  result_.single_shape.harmonic_mean = 0.98765;
  result_.cheapest_shape.packs = 9;
  TunedShape smallest = Shape({2, 20, 1}, 30, 660);
  smallest.harmonic_mean = 0.5;
  result_.frontier = {smallest, result_.single_shape};
  result_.oversize = OversizeGraphs{.num_graphs = 1,
                                    .num_apart = 1,
                                    .num_shapes = 1,
                                    .largest = {50, 3},
                                    .needed_rows = {50, 20, 2},
                                    .needed_bytes = 99};
  options_.objective = TuneObjective::kHarmonicMean;
  options_.steps = 1000;
  facts_.all_looked_at = false;
  facts_.possible_gain = 0.25;
  EXPECT_THAT(
      Reasons(),
      ElementsAre("6 packs of nodes 12, edges 20, graphs 2 have a harmonic mean of efficiencies of "
                  "98.765 %.",
                  "No plan for this shape has fewer packs: that is its bound by the volume of "
                  "edges.",
                  "The budget of 1000 steps ended after 12 plans: another single shape may be "
                  "better, by 25 % at most.",
                  "nodes 12 is the least that takes the largest graph, of 12.",
                  "edges 20 is the least that min_rows allows.",
                  "Padding keeps 1 of graphs free in each batch.",
                  "graphs 2 is what the fullest pack needs.",
                  "There are no reports of gin/h100: the profile's own figures hold.",
                  "The smallest of the shapes tried, nodes 2, edges 20, graphs 2, has a harmonic "
                  "mean of 50.000 %.",
                  "1 graph does not fit one shape together with the others, though each fits "
                  "allowed limits of its own; the largest has nodes 50, edges 3. memory_bytes 99 "
                  "would take all."));
}

TEST_F(TuningReasonsTest, OfSeveralShapesWithMeasuredCosts) {
  profile_.components = {{1, 31, 1, 0, 1}, {1, 100, 20, 0, 1}, {1, 0, 1, 0, 0}};
  profile_.max_distinct_shapes = 2;
  profile_.measured_as = "gin/h100";
  profile_.has_measured_costs = true;
  profile_.fixed_cost = 0.5;
  // Within the smaller shape, beyond it in a component, and in both.
  Count({{{10, 20}, 5}, {{11, 5}, 3}, {{3, 21}, 2}, {{30, 60}, 1}});
  Recommend(Shape({31, 60, kUnlimited}, 6, 540));
  result_.shapes = {Shape({31, 60, kUnlimited}, 2, 180), Shape({10, 20, kUnlimited}, 8, 240)};
  result_.epoch_cost = 420;
  result_.least_cost = 400;
  result_.frontier = {Shape({5, 10, kUnlimited}, 40, 600), result_.single_shape};
  options_.steps = 7;
  facts_.all_looked_at = false;
  facts_.candidates = UINT64_MAX;
  EXPECT_THAT(
      Reasons(),
      ElementsAre("2 shapes cost 420 an epoch, one shape 540: 22.2 % less. 5 % of that is more "
                  "than the real rows, which no limits can undercut.",
                  "2 of 10 packs use the largest shape, nodes 31, edges 60; graphs that fit no "
                  "smaller one: 6.",
                  "The best single shape: 6 packs of nodes 31, edges 60 cost 540 an epoch, 35 % "
                  "more than the real rows, which no limits can undercut.",
                  "No plan for this shape has fewer packs: that is its bound by the volume of "
                  "edges.",
                  "The budget of 7 steps does not suffice to look at all of more than 2^64 "
                  "candidates.",
                  "nodes 31 is the most that max_rows allows.",
                  "edges 60 is the least that takes the largest graph, of 60.",
                  "edges must be a multiple of 20.",
                  "Costs are seconds, as gin/h100 was measured: 0.5 for each batch, 91.5 for one "
                  "of this shape.",
                  "The smallest of the shapes tried, nodes 5, edges 10, costs 11.1 % more an "
                  "epoch."));
}

TEST_F(TuningReasonsTest, OfOneShapeWhereThereMayBeMore) {
  profile_.components = {{1, 100, 1, 0, 1}, {1, 0, 1, 0, 0}, {1, 4, 1, 0, 0}};
  profile_.max_distinct_shapes = 3;
  // What is known of the memory is no number of bytes.
  profile_.measured_bytes = std::make_shared<MeasuredBytes>();
  Count({{{10, 7}, 40}});
  Recommend(Shape({40, kUnlimited, 4}, 10, 2e15));
  result_.single_shape.batch_bytes = 77;
  result_.cheapest_shape.packs = 11;
  result_.frontier = {result_.single_shape};
  result_.oversize = OversizeGraphs{.num_graphs = 2,
                                    .num_apart = 2,
                                    .num_shapes = 8,
                                    .largest = {12, 8},
                                    .needed_rows = {100, 0, 4}};
  options_.equal_cost = 0.005;
  facts_.candidates = UINT64_MAX;
  EXPECT_THAT(
      Reasons(),
      ElementsAre("No set of up to 3 shapes was found that costs noticeably less than one shape.",
                  "10 packs of nodes 40, graphs 4 cost 2e+15 an epoch, and the real rows cost "
                  "nothing.",
                  "No plan for this shape has fewer packs: that is its bound by the volume of "
                  "edges.",
                  "Shapes that cost at most 0.5 % more than the cheapest count as equal, and of "
                  "these one with the fewest packs is recommended, since a step costs a device "
                  "something whatever its batch holds: the cheapest, nodes 40, graphs 4, needs 11 "
                  "packs and saves nothing. The profile's fixed_cost says what a step costs.",
                  "12 of more than 2^64 candidates were planned; bounds exclude the others.",
                  "A batch takes 77 bytes.",
                  "2 graphs do not fit 8 shapes together with the others, though each fits allowed "
                  "limits of its own; the largest has nodes 12, edges 8. more memory than the "
                  "device was measured to have would take all."));
}

TEST_F(TuningReasonsTest, OfGroups) {
  result_.shapes = {Shape({30, 60, kUnlimited}, 1, 90), Shape({10, 90, kUnlimited}, 8, 330)};
  result_.epoch_cost = 420;
  result_.least_cost = 400;
  result_.group_graphs = {10, 4};
  const std::string groups =
      "No one shape within the memory takes all graphs that fit alone, so there are 2 groups of "
      "them, of 10, 4 graphs, with shapes of their own: nodes 30, edges 60 (1 pack); nodes 10, "
      "edges 90 (8 packs).";
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  EXPECT_THAT(
      GroupReasons(result_, schema),
      ElementsAre(
          groups,
          "All 9 packs of the 14 graphs cost 420 an epoch, 5 % more than the real rows, "
          "which no limits can undercut. What follows is about the first group by itself."));
  result_.least_cost = 0;
  EXPECT_THAT(GroupReasons(result_, schema),
              ElementsAre(groups,
                          "All 9 packs of the 14 graphs cost 420 an epoch. What follows is about "
                          "the first group by itself."));
}

// Same arguments, same answer, on every machine and in every build: who makes the tuner choose
// otherwise has other numbers here.
TEST(TuningAnswersTest, AreTheseEverywhere) {
  Fingerprint one_shape;
  Fingerprint several;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    const bool has_grid = seed % 4 == 0;
    TuningWorld world =
        RandomTuningWorld(random, {.max_size = 60, .max_choices = has_grid ? 12U : 60U});
    TuneOptions options;
    options.steps = 2'000'000;
    options.seed = seed;
    options.include_grid = has_grid;
    for (const TuneObjective objective :
         {TuneObjective::kEpochCost, TuneObjective::kHarmonicMean}) {
      options.objective = objective;
      PH_ASSERT_OK_AND_ASSIGN(const TuneResult result,
                              TuneLimits(world.histogram, world.profile, world.schema, options));
      AddResult(result, one_shape);
    }
    options.objective = TuneObjective::kEpochCost;
    world.profile.max_distinct_shapes = static_cast<uint32_t>(2 + seed % 3);
    PH_ASSERT_OK_AND_ASSIGN(const TuneResult result,
                            TuneLimits(world.histogram, world.profile, world.schema, options));
    AddResult(result, several);
  }
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    ScarceWorld world = RandomTornWorld(random);
    world.profile.max_distinct_shapes = static_cast<uint32_t>(random.Between(1, 8));
    TuneOptions options;
    options.steps = 1'000'000;
    const auto result = TuneLimits(world.histogram, world.profile,
                                   TuningSchema(world.histogram.num_components()), options);
    several.Add(static_cast<uint64_t>(result.status().code()));
    if (result.ok()) AddResult(*result, several);
  }
  EXPECT_EQ(one_shape.value(), 17121944791601696983U);
  EXPECT_EQ(several.value(), 15457657482164896673U);
}

// What is reserved before anything is planned. Who makes a planner take more has other numbers.
TEST(PlanningBytesTest, AreTheseEverywhere) {
  EXPECT_EQ(PlannerBytes(0, 2), uint64_t{6} << 20);
  EXPECT_EQ(PlannerBytes(10'000, 2) - PlannerBytes(9'999, 2), 328 + 9 * 4 * 3);
  EXPECT_EQ(PlannerBytes(100, 2), 6'581'456U);
  EXPECT_EQ(TunerBytes(0, 2),
            (uint64_t{16} << 20) + 4 * SizeHistogram::BytesFor(0, 2) + 2 * PlannerBytes(0, 2));
  EXPECT_EQ(TunerBytes(100, 3), (uint64_t{16} << 20) + 4 * SizeHistogram::BytesFor(100, 3) +
                                    100 * (24 + 2 * 8 * 4) + 2 * PlannerBytes(100, 3));
  SizeHistogram sizes(2);
  for (uint32_t i = 0; i < 7; ++i) EXPECT_THAT(sizes.Add({i, 2 * i}, 3), IsOk());
  DeviceProfile profile;
  profile.components = {{1, 100, 1, 8, 1}, {1, 200, 1, 4, 1}, {1, 0, 1, 0, 0}};
  EXPECT_EQ(BytesToFindOversize(sizes, profile), 0U);
  EXPECT_EQ(BytesToFindGroups(sizes, profile), 0U);
  profile.memory_bytes = 1000;
  EXPECT_EQ(BytesToFindOversize(sizes, profile), 1883U);
  EXPECT_EQ(BytesToFindGroups(sizes, profile), 9142U);
  EXPECT_EQ(OptimizerOptions::StepsFor(3), 100'006'000U);
  EXPECT_EQ(LeastPlanSteps(sizes) - LeastPlanSteps(SizeHistogram(2)), 7 * 350U);
  EXPECT_EQ(LeastPlanSteps(SizeHistogram(2)), 10'000U);
}

// Receipts of plans outlive a release: where a plan is no longer the same, or its receipt, the
// planner has another version.
TEST(TuningAnswersTest, PlansAreThoseOfTheirVersion) {
  EXPECT_EQ(kPlannerVersion, 8U);
  Fingerprint plans;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_distinct = 100, .max_capacity = 100});
    OptimizerOptions options;
    options.steps = random.Below(3'000'000);
    options.seed = seed;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan plan, OptimizePlan(histogram, limits, options));
    AddPlan(plan, plans);
    options.warm_start = &plan.plan;
    options.steps = random.Below(300'000);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan warm, OptimizePlan(histogram, limits, options));
    AddPlan(warm, plans);
    plans.AddAll(PlanReceipt(histogram, limits, options));
  }
  EXPECT_EQ(plans.value(), 9469178306523647091U);
}

}  // namespace
}  // namespace packhouse
