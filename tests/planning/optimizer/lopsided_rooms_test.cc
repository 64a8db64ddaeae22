#include "service/algorithms/planning/optimizer/lopsided_rooms.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/mixing.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

using ::testing::Optional;

constexpr uint64_t kAmpleOfSteps = uint64_t{1} << 40;

// Items 0 to 3: sparse, of the mean's shape, dense, and a near-clique.
PackingProblem FourKinds() {
  return PackingProblem(
      HistogramOf(2, {{{10, 10}, 20}, {{10, 30}, 60}, {{10, 50}, 20}, {{20, 900}, 5}}),
      LimitsOf({100, 1000, kUnlimited}));
}

TEST(LopsidedRoomsTest, TheNearestShapeThatIsLeftAndFits) {
  const PackingProblem problem = FourKinds();
  WorkBudget budget(kAmpleOfSteps);
  LopsidedRooms rooms(problem);
  rooms.Learn(problem.counts(), budget);
  // Capacities are in units of ten: 10 nodes, 100 edges.
  const std::vector<uint64_t> beside = {8, 10};
  const auto all = [](uint32_t) { return true; };
  EXPECT_TRUE(rooms.IsLarge(3));
  EXPECT_FALSE(rooms.IsLarge(2));
  EXPECT_THAT(rooms.Companion(beside, all, budget), Optional(0));
  EXPECT_THAT(rooms.Companion(
                  beside, [](uint32_t item) { return item != 0; }, budget),
              Optional(1));
  EXPECT_THAT(rooms.Companion({{8, 2}}, all, budget), Optional(0));
  EXPECT_EQ(rooms.Companion({{8, 0}}, all, budget), std::nullopt) << "nothing fits";
  EXPECT_EQ(rooms.Companion({{0, 10}}, all, budget), std::nullopt) << "no node is left";
  EXPECT_EQ(rooms.Companion({{8, 90}}, all, budget), std::nullopt) << "any graphs will do";
  EXPECT_EQ(rooms.Companion(
                beside, [](uint32_t) { return false; }, budget),
            std::nullopt);
}

// It is never an item that does not fit or is not left, and without small ones there is none.
TEST(LopsidedRoomsTest, WhatItGivesMayBeTaken) {
  int found = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    WorkBudget budget(kAmpleOfSteps);
    LopsidedRooms rooms(problem);
    std::vector<uint64_t> left(problem.counts().begin(), problem.counts().end());
    for (uint64_t& count : left) count = random.Below(3) == 0 ? 0 : count;
    rooms.Learn(left, budget);
    for (int i = 0; i < 20; ++i) {
      std::vector<uint64_t> room;
      for (const uint64_t capacity : problem.capacities()) {
        room.push_back(random.Below(capacity + 1));
      }
      const auto item = rooms.Companion(
          room, [&](uint32_t at) { return left[at] != 0; }, budget);
      if (!item) continue;
      ++found;
      ASSERT_NE(left[*item], 0);
      for (size_t k = 0; k < room.size(); ++k) ASSERT_LE(problem.sizes(*item)[k], room[k]);
    }
  }
  EXPECT_GT(found, 200);
}

// Sparse graphs are just enough for the near-cliques, and any other use of them costs packs.
TEST(LopsidedRoomsTest, NearCliquesGetTheSparseGraphs) {
  const SizeHistogram histogram =
      HistogramOf(2, {{{20, 900}, 100}, {{8, 10}, 1000}, {{8, 60}, 1200}});
  const PackingProblem problem(histogram, LimitsOf({100, 1000, kUnlimited}));
  MixingOptions options;
  options.target = 200;
  WorkBudget budget(kAmpleOfSteps);
  const auto patterns = PlanByMixing(problem, options, budget);
  ASSERT_TRUE(patterns);
  EXPECT_EQ(PlanOf(problem, *patterns).num_packs(), 200);
}

}  // namespace
}  // namespace packhouse
