#include "service/algorithms/planning/optimizer/merged_items.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "tests/planning/random_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// A world, and the same graphs with the limited components alone.
struct ProjectedWorld {
  PlanningWorld whole;
  PlanningWorld limited;
};

// To each graph of a world belong some rows of further components, which have no limit, before and
// after its own.
ProjectedWorld RandomProjectedWorld(Random& random) {
  PlanningWorldShape shape;
  shape.max_components = 3;
  PlanningWorld limited = RandomPlanningWorld(random, shape);
  const size_t l = limited.histogram.num_components();
  const size_t before = random.Below(3);
  const size_t after = random.Below(3);
  SizeHistogram whole(before + l + after);
  for (size_t row = 0; row < limited.histogram.num_distinct(); ++row) {
    for (uint64_t left = limited.histogram.count(row); left != 0;) {
      const uint64_t count = random.Between(1, left);
      std::vector<uint32_t> tuple;
      const auto add = [&](size_t components) {
        for (size_t k = 0; k < components; ++k) {
          tuple.push_back(static_cast<uint32_t>(random.Below(5)));
        }
      };
      add(before);
      const auto sizes = limited.histogram.tuple(row);
      tuple.insert(tuple.end(), sizes.begin(), sizes.end());
      add(after);
      EXPECT_THAT(whole.Add(tuple, count), IsOk());
      left -= count;
    }
  }
  std::vector<uint64_t> capacities(before, kUnlimited);
  const auto limits = limited.limits.capacities();
  capacities.insert(capacities.end(), limits.begin(), limits.end() - 1);
  capacities.insert(capacities.end(), after, kUnlimited);
  capacities.push_back(limited.limits.graphs());
  return {{std::move(whole), Limits::Create(std::move(capacities)).value()}, std::move(limited)};
}

// What has no limit makes no difference: neither to the number of packs, nor to the certificate,
// nor to the work.
TEST(MergedItemsTest, ComponentsWithoutALimitChangeNothing) {
  size_t merged = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [whole, limited] = RandomProjectedWorld(random);
    OptimizerOptions options;
    options.steps = random.Below(2) * 300'000;
    options.seed = seed;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan a,
                            OptimizePlan(whole.histogram, whole.limits, options));
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan b,
                            OptimizePlan(limited.histogram, limited.limits, options));
    EXPECT_THAT(VerifyPlan(a.plan, whole.histogram, whole.limits), IsOk());
    EXPECT_EQ(a.packs, b.packs);
    EXPECT_EQ(a.bound.packs, b.bound.packs);
    EXPECT_EQ(a.bound.kind, b.bound.kind);
    EXPECT_EQ(a.method, b.method);
    EXPECT_EQ(a.steps, b.steps);
    merged += whole.histogram.num_distinct() > limited.histogram.num_distinct() ? 1 : 0;
  }
  EXPECT_GT(merged, 100U);
}

TEST(MergedItemsTest, HasAnItemForEachSizeThatCanBind) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [whole, limited] = RandomProjectedWorld(random);
    const PackingProblem problem(whole.histogram, whole.limits);
    const MergedItems items(problem);
    std::set<std::vector<uint32_t>> sizes;
    std::vector<uint64_t> counts(items.problem().num_items());
    for (size_t i = 0; i < problem.num_items(); ++i) {
      sizes.emplace(problem.sizes(i).begin(), problem.sizes(i).end());
      counts[items.merged(i)] += problem.count(i);
      EXPECT_EQ(items.problem().sizes(items.merged(i)), problem.sizes(i));
    }
    EXPECT_EQ(items.problem().num_items(), sizes.size());
    EXPECT_EQ(
        std::vector<uint64_t>(items.problem().counts().begin(), items.problem().counts().end()),
        counts);
    EXPECT_EQ(items.problem().num_graphs(), problem.num_graphs());
  }
}

// An earlier plan for the same graphs is found again, whatever its sizes were merged with.
TEST(MergedItemsTest, AWarmStartKeepsItsPacks) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [whole, limited] = RandomProjectedWorld(random);
    OptimizerOptions options;
    options.steps = 300'000;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan first,
                            OptimizePlan(whole.histogram, whole.limits, options));
    options.steps = 0;
    options.warm_start = &first.plan;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan again,
                            OptimizePlan(whole.histogram, whole.limits, options));
    EXPECT_LE(again.packs, first.packs);
  }
}

TEST(MergedItemsTest, NoRoomForTheResultEndsThePlan) {
  SizeHistogram histogram(2);
  for (uint32_t i = 0; i < 5000; ++i) ASSERT_THAT(histogram.Add({1, i}, 1), IsOk());
  const Limits limits = Limits::Create({2, kUnlimited, kUnlimited}).value();
  uint64_t held = 0;
  PlanMemory memory([&held](uint64_t bytes) {
    held += bytes;
    return held < 200'000;
  });
  OptimizerOptions options;
  options.memory = &memory;
  // The plan for the merged size is one pattern.
  EXPECT_THAT(OptimizePlan(histogram, limits, options),
              StatusIs(absl::StatusCode::kCancelled, testing::_));
  options.memory = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan plan, OptimizePlan(histogram, limits, options));
  EXPECT_EQ(plan.packs, 2500U);
  EXPECT_TRUE(plan.optimal());
}

}  // namespace
}  // namespace packhouse
