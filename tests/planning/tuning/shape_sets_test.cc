#include "service/algorithms/planning/tuning/shape_sets.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/size_groups.h"
#include "tests/planning/tuning/tuning_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

OptimizerOptions FewSteps() {
  OptimizerOptions options;
  options.steps = 20'000;
  return options;
}

// Every graph is in one pack of one shape, and no pack exceeds its shape.
void ExpectConserves(const std::vector<ShapePacks>& shapes, const SizeHistogram& histogram) {
  SizeHistogram sum(histogram.num_components());
  for (const ShapePacks& shape : shapes) {
    EXPECT_THAT(VerifyPlan(shape.plan, shape.graphs, Limits::Create(shape.capacities).value()),
                IsOk());
    EXPECT_THAT(sum.Merge(shape.graphs), IsOk());
  }
  EXPECT_TRUE(sum == histogram);
}

bool PackFits(const PackingPlan& plan, const Pattern& pattern,
              const std::vector<uint64_t>& capacities) {
  std::vector<uint64_t> rows(capacities.size(), 0);
  for (const auto& [tuple, copies] : pattern.entries) {
    for (size_t k = 0; k < plan.num_components; ++k) {
      rows[k] += uint64_t{plan.tuple(tuple)[k]} * copies;
    }
    rows.back() += copies;
  }
  for (size_t k = 0; k < rows.size(); ++k) {
    if (rows[k] > capacities[k]) return false;
  }
  return true;
}

// Any chain of shapes: conservation, and each pack is in the last shape that takes it.
TEST(PlanForShapesTest, EveryGraphIsPackedOnceAndInTheSmallestShape) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random, {.max_size = 40, .max_distinct = 40});
    const size_t l = world.histogram.num_components();
    std::vector<std::vector<uint64_t>> shapes = {{}};
    for (size_t k = 0; k < l; ++k) {
      shapes[0].push_back(std::max<uint64_t>(world.histogram.maximum(k), 1) + random.Below(80));
    }
    shapes[0].push_back(random.Below(2) == 0 ? kUnlimited : random.Between(1, 10));
    for (uint64_t i = random.Below(4); i != 0; --i) {
      std::vector<uint64_t> smaller = shapes.back();
      for (size_t k = 0; k < l; ++k) smaller[k] = random.Between((smaller[k] + 1) / 2, smaller[k]);
      shapes.push_back(std::move(smaller));
    }
    for (const uint64_t steps : {uint64_t{0}, uint64_t{10'000}, WorkBudget::kDefaultSteps}) {
      WorkBudget budget(steps);
      PH_ASSERT_OK_AND_ASSIGN(const std::vector<ShapePacks> packs,
                              PlanForShapes(world.histogram, shapes, FewSteps(), budget));
      ASSERT_EQ(packs.size(), shapes.size());
      ExpectConserves(packs, world.histogram);
      for (size_t s = 0; s < shapes.size(); ++s) {
        EXPECT_EQ(packs[s].capacities, shapes[s]);
        for (const Pattern& pattern : packs[s].plan.patterns) {
          for (size_t later = s + 1; later < shapes.size(); ++later) {
            EXPECT_FALSE(PackFits(packs[s].plan, pattern, shapes[later]));
          }
        }
      }
    }
    if (HasFailure()) return;
  }
}

// Shapes of which none takes all that another takes: the same laws, and a graph that only one shape
// takes is packed for that one.
TEST(PlanForShapesTest, NoShapeHasToTakeEveryGraph) {
  int several_leaders = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const TuningWorld world = RandomTuningWorld(random, {.max_size = 40, .max_distinct = 40});
    const size_t l = world.histogram.num_components();
    // Each size is one of some groups, and each group has a shape.
    std::vector<std::vector<uint64_t>> shapes(random.Between(1, 4),
                                              std::vector<uint64_t>(l + 1, 1));
    for (size_t row = 0; row < world.histogram.num_distinct(); ++row) {
      std::vector<uint64_t>& shape = shapes[random.Below(shapes.size())];
      for (size_t k = 0; k < l; ++k) {
        shape[k] = std::max<uint64_t>(shape[k], world.histogram.tuple(row)[k]);
      }
    }
    for (std::vector<uint64_t>& shape : shapes) {
      for (size_t k = 0; k < l; ++k) shape[k] += random.Below(20);
      shape[l] = random.Below(2) == 0 ? kUnlimited : random.Between(1, 10);
    }
    // Then none takes all that an earlier one takes, unless they are equal.
    std::sort(shapes.begin(), shapes.end(), std::greater<>());
    several_leaders += LeadingShapes(shapes).size() > 1 ? 1 : 0;
    for (const uint64_t steps : {uint64_t{0}, uint64_t{10'000}, WorkBudget::kDefaultSteps}) {
      WorkBudget budget(steps);
      PH_ASSERT_OK_AND_ASSIGN(const std::vector<ShapePacks> packs,
                              PlanForShapes(world.histogram, shapes, FewSteps(), budget));
      ASSERT_EQ(packs.size(), shapes.size());
      ExpectConserves(packs, world.histogram);
      for (size_t s = 0; s < shapes.size(); ++s) {
        EXPECT_EQ(packs[s].capacities, shapes[s]);
        for (const Pattern& pattern : packs[s].plan.patterns) {
          for (size_t later = s + 1; later < shapes.size(); ++later) {
            EXPECT_FALSE(PackFits(packs[s].plan, pattern, shapes[later]));
          }
        }
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(several_leaders, 50);
}

// A graph that no shape takes is a bug of the caller, and told.
TEST(PlanForShapesTest, AGraphThatNoShapeTakes) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({9, 9}, 1), IsOk());
  WorkBudget budget;
  EXPECT_THAT(PlanForShapes(histogram, {{10, 5, 4}, {5, 10, 4}}, FewSteps(), budget).status(),
              StatusIs(absl::StatusCode::kInternal, _));
}

// Room beside a large graph is filled before a small shape is used.
TEST(PlanForShapesTest, SmallGraphsFillTheRoomInLargeShapes) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({60}, 3), IsOk());
  ASSERT_THAT(histogram.Add({10}, 14), IsOk());
  WorkBudget budget;
  PH_ASSERT_OK_AND_ASSIGN(
      const std::vector<ShapePacks> packs,
      PlanForShapes(histogram, {{100, kUnlimited}, {20, kUnlimited}}, FewSteps(), budget));
  ExpectConserves(packs, histogram);
  EXPECT_EQ(packs[0].plan.num_packs(), 3);
  EXPECT_EQ(packs[0].graphs.CountOf({10}), 12);
  EXPECT_EQ(packs[1].plan.num_packs(), 1);
}

TEST(PlanForShapesTest, GraphsWithoutComponents) {
  SizeHistogram histogram(0);
  ASSERT_THAT(histogram.Add({}, 10), IsOk());
  WorkBudget budget;
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<ShapePacks> packs,
                          PlanForShapes(histogram, {{4}, {2}}, FewSteps(), budget));
  ExpectConserves(packs, histogram);
}

// Huge counts neither take long nor wrap around.
TEST(PlanForShapesTest, HugeCounts) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({60}, uint64_t{1} << 50), IsOk());
  ASSERT_THAT(histogram.Add({7}, uint64_t{1} << 58), IsOk());
  ASSERT_THAT(histogram.Add({11}, (uint64_t{1} << 57) + 5), IsOk());
  WorkBudget budget;
  PH_ASSERT_OK_AND_ASSIGN(
      const std::vector<ShapePacks> packs,
      PlanForShapes(histogram, {{100, kUnlimited}, {40, kUnlimited}}, FewSteps(), budget));
  ExpectConserves(packs, histogram);
}

TEST(ChooseShapesTest, CheaperThanAskedForOrNothing) {
  int found = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TuningWorld world = RandomTuningWorld(random, {.max_size = 60, .max_choices = 100});
    world.profile.max_distinct_shapes = static_cast<uint32_t>(random.Between(2, 5));
    const std::vector<uint64_t> least = NeededCapacities(world.histogram, world.profile);
    const double most_cost =
        static_cast<double>(world.histogram.num_graphs()) * CostOfShape(world.profile, least);
    WorkBudget budget(20'000'000);
    PH_ASSERT_OK_AND_ASSIGN(
        const std::vector<ShapePacks> shapes,
        ChooseShapes(world.histogram, world.profile, most_cost, FewSteps(), budget));
    EXPECT_LE(shapes.size(), world.profile.max_distinct_shapes);
    if (shapes.empty()) continue;
    ++found;
    ExpectConserves(shapes, world.histogram);
    EXPECT_LT(CostOfShapePacks(world.profile, shapes), most_cost);
    for (const ShapePacks& shape : shapes) EXPECT_FALSE(shape.plan.patterns.empty());
    // Nothing is cheaper than nothing.
    WorkBudget another(20'000'000);
    PH_ASSERT_OK_AND_ASSIGN(
        const std::vector<ShapePacks> none,
        ChooseShapes(world.histogram, world.profile, CostOfShapePacks(world.profile, shapes) / 10,
                     FewSteps(), another));
    EXPECT_THAT(none, IsEmpty());
    if (HasFailure()) return;
  }
  EXPECT_GT(found, 30);
}

TEST(ChooseShapesTest, WithoutStepsThereIsNothing) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({60}, 3), IsOk());
  ASSERT_THAT(histogram.Add({10}, 1000), IsOk());
  DeviceProfile profile;
  profile.components = {{1, 100, 1, 0, 1}, {1, 1, 1, 0, 0}};
  profile.max_distinct_shapes = 2;
  WorkBudget none(0);
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<ShapePacks> nothing,
                          ChooseShapes(histogram, profile, 1e9, FewSteps(), none));
  EXPECT_THAT(nothing, IsEmpty());
  WorkBudget budget;
  PH_ASSERT_OK_AND_ASSIGN(const std::vector<ShapePacks> two,
                          ChooseShapes(histogram, profile, 1e9, FewSteps(), budget));
  ASSERT_THAT(two, SizeIs(2));
  EXPECT_THAT(two[0].capacities, ElementsAre(60, 1));
  EXPECT_THAT(two[1].capacities, ElementsAre(10, 1));
  EXPECT_EQ(CostOfShapePacks(profile, two), 3 * 60 + 1000 * 10);
}

}  // namespace
}  // namespace packhouse
