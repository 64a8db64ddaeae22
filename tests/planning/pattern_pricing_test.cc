#include "service/algorithms/planning/pattern_pricing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The worth of the best multiset of items i, i + 1, ... in this room, by trying all.
int64_t BestByTrying(const PackingProblem& problem, const std::vector<int32_t>& values, size_t i,
                     std::vector<uint64_t> room) {
  if (i == problem.num_items()) return 0;
  const auto sizes = problem.sizes(i);
  // Without a size there is no end to the copies; such items have no value.
  const bool sized = std::any_of(sizes.begin(), sizes.end(), [](uint32_t s) { return s != 0; });
  int64_t best = BestByTrying(problem, values, i + 1, room);
  for (int64_t worth = values[i]; sized; worth += values[i]) {
    for (size_t k = 0; k < sizes.size(); ++k) {
      if (sizes[k] > room[k]) return best;
      room[k] -= sizes[k];
    }
    best = std::max(best, worth + BestByTrying(problem, values, i + 1, room));
  }
  return best;
}

std::vector<uint64_t> RoomOf(const PackingProblem& problem) {
  return {problem.capacities().begin(), problem.capacities().end()};
}

// Items of no size, which no pattern can have too many of, are worth nothing.
std::vector<int32_t> RandomValues(Random& random, const PackingProblem& problem) {
  std::vector<int32_t> values;
  const int32_t most = random.Below(2) == 0 ? 5 : 1'000'000;
  for (size_t i = 0; i < problem.num_items(); ++i) {
    const bool sized = problem.LargestShare(i) != 0;
    values.push_back(sized ? static_cast<int32_t>(random.Below(most)) : 0);
  }
  return values;
}

// What all patterns of a tiny world are worth, for each item, and that the pattern it gives is one.
TEST(PatternPricingTest, EqualsTryingAllPatterns) {
  uint64_t patterns = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(
        random, {.max_components = 4, .max_distinct = 6, .max_count = 9, .max_capacity = 9});
    const PackingProblem problem(histogram, limits);
    PatternPricing pricing(problem, BestVectorLevel());
    // More than once, so that nothing of the last time is left.
    for (int i = 0; i < 2; ++i) {
      const std::vector<int32_t> values = RandomValues(random, problem);
      pricing.Solve(values);
      EXPECT_LE(pricing.LastSteps(), PatternPricing::MostSteps(problem));
      ASSERT_EQ(pricing.Best(), BestByTrying(problem, values, 0, RoomOf(problem)));
      for (uint32_t item = 0; item < problem.num_items(); ++item) {
        std::vector<uint64_t> room = RoomOf(problem);
        for (size_t k = 0; k < room.size(); ++k) room[k] -= problem.sizes(item)[k];
        ASSERT_EQ(pricing.WorthBeside(item), BestByTrying(problem, values, 0, room));
        ASSERT_EQ(pricing.BestWith(item), values[item] + pricing.WorthBeside(item));
        const Pattern pattern = pricing.PatternWith(item);
        EXPECT_EQ(pattern.repeats, 0);
        int64_t worth = 0;
        bool has_item = false;
        room = RoomOf(problem);
        for (size_t e = 0; e < pattern.entries.size(); ++e) {
          const auto [other, copies] = pattern.entries[e];
          ASSERT_GT(copies, 0);
          if (e > 0) {
            ASSERT_GT(other, pattern.entries[e - 1].tuple) << "ascending";
          }
          has_item |= other == item;
          worth += int64_t{values[other]} * copies;
          for (size_t k = 0; k < room.size(); ++k) {
            ASSERT_LE(problem.sizes(other)[k] * copies, room[k]);
            room[k] -= problem.sizes(other)[k] * copies;
          }
        }
        EXPECT_TRUE(has_item);
        EXPECT_EQ(worth, pricing.BestWith(item));
        ++patterns;
      }
    }
  }
  EXPECT_GT(patterns, 5000);
}

// Rows of rooms longer than a vector, and every level.
TEST(PatternPricingTest, EachLevelGivesTheSame) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_components = 2, .max_capacity = 150});
    const PackingProblem problem(histogram, limits);
    const std::vector<int32_t> values = RandomValues(random, problem);
    PatternPricing plain(problem, VectorLevel::kPlain);
    plain.Solve(values);
    for (const VectorLevel level : VectorLevelsHere()) {
      PatternPricing pricing(problem, level);
      pricing.Solve(values);
      EXPECT_EQ(pricing.Best(), plain.Best());
      EXPECT_EQ(pricing.LastSteps(), plain.LastSteps());
      for (uint32_t item = 0; item < problem.num_items(); ++item) {
        ASSERT_EQ(pricing.BestWith(item), plain.BestWith(item));
        ASSERT_EQ(pricing.PatternWith(item), plain.PatternWith(item));
      }
    }
    if (HasFailure()) return;
  }
}

// Two of 5 and none of 4 fill 10 rows: counts do not bound copies.
TEST(PatternPricingTest, ByHand) {
  const PackingProblem problem(HistogramOf(1, {{{5}, 1}, {{4}, 3}, {{3}, 1}}),
                               LimitsOf({10, kUnlimited}));
  PatternPricing pricing(problem, BestVectorLevel());
  pricing.Solve({3, 4, 5});  // Of sizes 3, 4, 5.
  EXPECT_EQ(pricing.Best(), 10);
  EXPECT_THAT(pricing.PatternWith(2).entries, ElementsAre(PatternEntry{2, 2}));
  EXPECT_THAT(pricing.PatternWith(1).entries, ElementsAre(PatternEntry{0, 2}, PatternEntry{1, 1}));
  EXPECT_EQ(pricing.WorthBeside(0), 7);
  EXPECT_GT(pricing.LastSteps(), 0);
  pricing.Solve({0, 0, 0});
  EXPECT_EQ(pricing.Best(), 0);
  EXPECT_THAT(pricing.PatternWith(1).entries, ElementsAre(PatternEntry{1, 1}));
}

TEST(PatternPricingTest, WorthUpToItsBound) {
  const PackingProblem problem(HistogramOf(1, {{{1}, 100}, {{7}, 100}}), LimitsOf({7, kUnlimited}));
  PatternPricing pricing(problem, BestVectorLevel());
  constexpr int32_t kSeventh = PatternPricing::kMaxWorth / 7;
  pricing.Solve({kSeventh, PatternPricing::kMaxWorth});
  EXPECT_EQ(pricing.Best(), PatternPricing::kMaxWorth);
  EXPECT_EQ(pricing.BestWith(0), 7 * kSeventh);
}

TEST(PatternPricingTest, NumRoomsIsTheProductOfExtents) {
  const SizeHistogram histogram = HistogramOf(3, {{{1, 1, 1}, uint64_t{1} << 61}});
  const auto rooms_of = [&](std::vector<uint64_t> capacities) {
    return PatternPricing::NumRooms(PackingProblem(histogram, LimitsOf(std::move(capacities))));
  };
  EXPECT_EQ(rooms_of({5, kUnlimited, kUnlimited, kUnlimited}), 6);
  EXPECT_EQ(rooms_of({5, 6, 7, kUnlimited}), 6 * 7 * 8);
  constexpr uint64_t kLarge = uint64_t{1} << 32;
  EXPECT_EQ(rooms_of({kLarge - 2, kLarge, kUnlimited, kUnlimited}), (kLarge - 1) * (kLarge + 1));
  EXPECT_EQ(rooms_of({kLarge - 1, kLarge - 1, kUnlimited, kUnlimited}), UINT64_MAX);
  EXPECT_EQ(rooms_of({kLarge, kLarge, kLarge, kUnlimited}), UINT64_MAX);
}

// Nothing binds: one room, in which there is place for everything.
TEST(PatternPricingTest, WithoutComponents) {
  const PackingProblem problem(HistogramOf(1, {{{3}, 2}, {{0}, 9}}), LimitsOf({6, kUnlimited}));
  EXPECT_EQ(PatternPricing::NumRooms(problem), 1);
  PatternPricing pricing(problem, BestVectorLevel());
  pricing.Solve({0, 0});
  EXPECT_EQ(pricing.Best(), 0);
  EXPECT_THAT(pricing.PatternWith(1).entries, ElementsAre(PatternEntry{1, 1}));
  const PackingProblem empty(SizeHistogram(1), LimitsOf({6, kUnlimited}));
  PatternPricing nothing(empty, BestVectorLevel());
  nothing.Solve({});
  EXPECT_EQ(nothing.Best(), 0);
}

}  // namespace
}  // namespace packhouse
