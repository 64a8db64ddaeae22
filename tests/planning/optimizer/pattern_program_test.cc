#include "service/algorithms/planning/optimizer/pattern_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

constexpr double kTolerance = 1e-6;

struct ProgramWorld {
  std::vector<double> demand;
  std::vector<uint32_t> most_copies;
  // The patterns that are given in addition to those of one item.
  std::vector<std::vector<PatternEntry>> patterns;
};

ProgramWorld RandomWorld(Random& random, size_t most_items, uint64_t most_demand) {
  ProgramWorld world;
  const auto n = static_cast<uint32_t>(random.Between(1, most_items));
  for (uint32_t i = 0; i < n; ++i) {
    world.demand.push_back(
        static_cast<double>(random.Below(4) == 0 ? 0 : random.Below(most_demand)));
    world.most_copies.push_back(static_cast<uint32_t>(random.Between(1, 12)));
  }
  for (uint64_t p = random.Below(4 * most_items); p != 0; --p) {
    std::vector<PatternEntry> entries;
    for (uint32_t i = 0; i < n; ++i) {
      if (random.Below(3) != 0) continue;
      entries.push_back({i, static_cast<uint32_t>(random.Between(1, world.most_copies[i]))});
    }
    if (!entries.empty()) world.patterns.push_back(std::move(entries));
  }
  return world;
}

PatternProgram ProgramOf(const ProgramWorld& world, VectorLevel level = BestVectorLevel()) {
  PatternProgram program(world.demand, world.most_copies, level);
  for (const auto& entries : world.patterns) program.AddPattern(entries);
  return program;
}

// That uses cover the demand, that duals are prices at which no pattern is worth more than a pack,
// and that the demand is worth as many packs as are used: by weak duality, both are optimal.
void ExpectOptimal(const PatternProgram& program, const std::vector<double>& demand) {
  const double most_demand = *std::max_element(demand.begin(), demand.end());
  const double tolerance = kTolerance * (1 + most_demand);
  std::vector<double> covered(demand.size(), 0);
  double packs = 0;
  for (const auto& [p, x] : program.Uses()) {
    ASSERT_LT(p, program.num_patterns());
    EXPECT_GT(x, 0);
    packs += x;
    for (const auto& [item, copies] : program.pattern(p)) covered[item] += x * copies;
  }
  EXPECT_NEAR(program.Value(), packs, tolerance);
  double worth = 0;
  ASSERT_EQ(program.duals().size(), demand.size());
  for (size_t i = 0; i < demand.size(); ++i) {
    EXPECT_GE(covered[i], demand[i] - tolerance) << "item " << i;
    EXPECT_GE(program.duals()[i], -1e-9) << "item " << i;
    worth += demand[i] * program.duals()[i];
  }
  EXPECT_NEAR(program.Value(), worth, tolerance);
  for (size_t p = 0; p < program.num_patterns(); ++p) {
    double price = 0;
    for (const auto& [item, copies] : program.pattern(p)) {
      price += program.duals()[item] * copies;
    }
    EXPECT_LE(price, 1 + kTolerance) << "pattern " << p;
  }
}

TEST(PatternProgramTest, PrimalAndDualProveEachOther) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const ProgramWorld world =
        RandomWorld(random, random.Below(10) == 0 ? 60 : 12, random.Below(2) == 0 ? 10 : 100'000);
    PatternProgram program = ProgramOf(world);
    WorkBudget budget;
    ASSERT_TRUE(program.SolvePrimal(budget));
    ExpectOptimal(program, world.demand);
    if (HasFailure()) return;
  }
}

// As column generation does it.
TEST(PatternProgramTest, PatternsMayJoinAnOptimum) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const ProgramWorld world = RandomWorld(random, 15, 1000);
    WorkBudget budget;
    PatternProgram at_once = ProgramOf(world);
    ASSERT_TRUE(at_once.SolvePrimal(budget));
    PatternProgram program(world.demand, world.most_copies, BestVectorLevel());
    double value = 1e300;
    for (const auto& entries : world.patterns) {
      program.AddPattern(entries);
      if (random.Below(3) != 0) continue;
      ASSERT_TRUE(program.SolvePrimal(budget));
      EXPECT_LE(program.Value(), value + kTolerance) << "more patterns, not more packs";
      value = program.Value();
    }
    ASSERT_TRUE(program.SolvePrimal(budget));
    ExpectOptimal(program, world.demand);
    EXPECT_NEAR(program.Value(), at_once.Value(), kTolerance * (1 + at_once.Value()));
    if (HasFailure()) return;
  }
}

// As rounding does it: demand falls, again and again.
TEST(PatternProgramTest, SolveDualAfterAChangeOfDemandEqualsSolvingFromScratch) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    ProgramWorld world =
        RandomWorld(random, random.Below(10) == 0 ? 40 : 12, random.Below(2) == 0 ? 10 : 100'000);
    WorkBudget budget;
    PatternProgram program = ProgramOf(world);
    ASSERT_TRUE(program.SolvePrimal(budget));
    for (int change = 0; change < 8; ++change) {
      SCOPED_TRACE(testing::Message() << "change=" << change);
      for (double& demand : world.demand) {
        if (random.Below(2) == 0) continue;
        // Also upwards; mostly down to nothing.
        const auto whole = static_cast<uint64_t>(demand);
        demand = static_cast<double>(random.Below(4) == 0 ? whole + random.Below(9)
                                                          : random.Below(whole + 1));
      }
      program.SetDemand(world.demand);
      ASSERT_TRUE(program.SolveDual(budget));
      ExpectOptimal(program, world.demand);
      PatternProgram from_scratch = ProgramOf(world);
      ASSERT_TRUE(from_scratch.SolvePrimal(budget));
      EXPECT_NEAR(program.Value(), from_scratch.Value(), kTolerance * (1 + from_scratch.Value()));
    }
    if (HasFailure()) return;
  }
}

// Bit for bit, as what is built on them must not depend on the machine.
TEST(PatternProgramTest, EachLevelGivesTheSameBits) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const ProgramWorld world = RandomWorld(random, 40, 1000);
    std::vector<double> changed = world.demand;
    for (double& demand : changed) demand = std::floor(demand / 2);
    WorkBudget plain_budget;
    PatternProgram plain = ProgramOf(world, VectorLevel::kPlain);
    ASSERT_TRUE(plain.SolvePrimal(plain_budget));
    plain.SetDemand(changed);
    ASSERT_TRUE(plain.SolveDual(plain_budget));
    for (const VectorLevel level : VectorLevelsHere()) {
      WorkBudget budget;
      PatternProgram program = ProgramOf(world, level);
      ASSERT_TRUE(program.SolvePrimal(budget));
      program.SetDemand(changed);
      ASSERT_TRUE(program.SolveDual(budget));
      EXPECT_EQ(program.Value(), plain.Value()) << VectorLevelName(level);
      EXPECT_EQ(program.duals(), plain.duals()) << VectorLevelName(level);
      EXPECT_EQ(budget.remaining(), plain_budget.remaining()) << VectorLevelName(level);
    }
    if (HasFailure()) return;
  }
}

// Who ran out of budget may go on with more.
TEST(PatternProgramTest, ABudgetStopsIt) {
  int stopped = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const ProgramWorld world = RandomWorld(random, 12, 1000);
    PatternProgram program = ProgramOf(world);
    WorkBudget nothing(0);
    EXPECT_FALSE(program.SolvePrimal(nothing));
    WorkBudget little(random.Below(3000));
    stopped += !program.SolvePrimal(little);
    WorkBudget budget;
    ASSERT_TRUE(program.SolvePrimal(budget));
    ExpectOptimal(program, world.demand);
    if (HasFailure()) return;
  }
  EXPECT_GT(stopped, 50);
}

// Of seven items one is wanted, so nearly all pivots change no packs. By the most negative reduced
// cost alone, the method comes back to the same basis again and again, in both of these.
TEST(PatternProgramTest, IsLedOutOfACircle) {
  const std::vector<ProgramWorld> worlds = {
      {{0, 0, 0, 1, 0, 0, 0},
       {2, 6, 9, 2, 11, 8, 12},
       {{{3, 2}, {4, 1}, {6, 3}},
        {{0, 1}, {5, 2}},
        {{0, 1}, {1, 1}, {2, 8}, {3, 2}},
        {{6, 4}},
        {{0, 2}, {3, 2}},
        {{1, 3}, {3, 1}},
        {{2, 5}, {3, 1}, {4, 11}, {5, 8}},
        {{0, 2}, {6, 2}},
        {{6, 7}},
        {{1, 5}, {4, 7}, {5, 3}, {6, 5}},
        {{0, 2}, {2, 1}, {3, 1}}}},
      {{0, 0, 1, 0, 0, 0, 0},
       {12, 6, 10, 10, 11, 8, 9},
       {{{5, 2}, {6, 4}},
        {{1, 4}, {4, 3}, {6, 4}},
        {{0, 2}, {1, 6}, {3, 10}, {4, 8}, {5, 4}, {6, 6}},
        {{1, 6}, {2, 9}, {3, 7}, {6, 3}},
        {{2, 5}},
        {{0, 5}, {2, 9}, {3, 2}, {6, 1}},
        {{0, 4}, {1, 3}, {4, 5}, {6, 9}},
        {{0, 5}, {1, 2}, {2, 2}, {3, 3}, {4, 11}, {5, 6}, {6, 6}},
        {{0, 3}, {2, 3}, {3, 1}, {4, 5}, {5, 5}, {6, 6}},
        {{3, 10}},
        {{0, 9}, {1, 3}, {2, 8}, {4, 9}, {5, 6}},
        {{1, 3}, {2, 3}},
        {{0, 11}, {1, 5}, {4, 7}, {5, 4}},
        {{3, 8}, {5, 2}},
        {{4, 10}, {5, 8}, {6, 5}},
        {{1, 6}, {3, 4}, {4, 11}, {5, 8}, {6, 1}},
        {{1, 5}, {5, 8}}}}};
  for (const ProgramWorld& world : worlds) {
    PatternProgram program = ProgramOf(world);
    WorkBudget budget;
    ASSERT_TRUE(program.SolvePrimal(budget));
    ExpectOptimal(program, world.demand);
    // Nothing of the packs that were added is left.
    EXPECT_NEAR(program.Value(), world.demand[3] == 1 ? 0.5 : 0.1, 1e-9);
  }
}

// Rolls of 10 cut into 30 of 6, 20 of 4 and 9 of 3, by hand: 20 of (6, 4), 10 of (6, 3).
TEST(PatternProgramTest, ByHand) {
  PatternProgram program({20, 30, 9}, {2, 1, 3}, BestVectorLevel());  // 4, 6, 3.
  EXPECT_EQ(program.num_patterns(), 3);
  program.AddPattern({{0, 1}, {1, 1}});
  program.AddPattern({{1, 1}, {2, 1}});
  program.AddPattern({{0, 1}, {2, 2}});
  ASSERT_EQ(program.num_patterns(), 6);
  EXPECT_THAT(program.pattern(5), ElementsAre(PatternEntry{0, 1}, PatternEntry{2, 2}));
  EXPECT_NEAR(program.Value(), 10 + 30 + 3, kTolerance) << "each alone";
  WorkBudget budget;
  ASSERT_TRUE(program.SolvePrimal(budget));
  EXPECT_NEAR(program.Value(), 30, kTolerance);
  EXPECT_THAT(program.duals(), ElementsAre(DoubleNear(0, kTolerance), DoubleNear(1, kTolerance),
                                           DoubleNear(0, kTolerance)));
  // Without 6s: 9 of 4 and 18 of 3 as 9 of (4, 3, 3), the others 4 two by two.
  program.SetDemand({21, 0, 18});
  ASSERT_TRUE(program.SolveDual(budget));
  EXPECT_NEAR(program.Value(), 9 + 6, kTolerance);
  program.SetDemand({0, 0, 0});
  ASSERT_TRUE(program.SolveDual(budget));
  EXPECT_NEAR(program.Value(), 0, kTolerance);
  EXPECT_TRUE(program.Uses().empty());
}

TEST(PatternProgramTest, WithoutItems) {
  PatternProgram program({}, {}, BestVectorLevel());
  WorkBudget budget;
  EXPECT_TRUE(program.SolvePrimal(budget));
  EXPECT_EQ(program.Value(), 0);
  EXPECT_TRUE(program.Uses().empty());
}

}  // namespace
}  // namespace packhouse
