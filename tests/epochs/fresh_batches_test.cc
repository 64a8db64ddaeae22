#include "service/engine/epochs/fresh_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/memory_budget.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/accounting.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// A world with its plan.
struct World {
  std::vector<uint32_t> counts;
  ItemSizes sizes;
  SizeClasses classes;
  ShapeLimits limits;
  PackingPlan plan;

  absl::StatusOr<EpochBatches> Draw(const EpochSeed& seed, const Making& making = {},
                                    const FreshBatchesOptions& options = {}) const {
    return DrawFreshEpoch(classes, absl::MakeConstSpan(&plan.patterns, 1), sizes, limits, seed,
                          std::nullopt, making, options);
  }
};

World MakeWorld(std::vector<uint32_t> counts, const Limits& limits, uint64_t steps = 1'000'000) {
  const ItemSizes sizes = NodesAndEdges(counts);
  SizeClasses classes = SizeClasses::Create(sizes).value();
  OptimizerOptions options;
  options.steps = steps;
  PackingPlan plan = OptimizePlan(classes.Histogram().value(), limits, options).value().plan;
  World world = {std::move(counts), sizes, std::move(classes), {{limits}}, std::move(plan)};
  world.sizes = NodesAndEdges(world.counts);
  return world;
}

// Nearly all sizes are distinct.
std::vector<uint32_t> DistinctSizes(size_t num_items, uint64_t seed) {
  Random random(seed);
  std::vector<uint32_t> counts;
  for (size_t i = 0; i < num_items; ++i) {
    const uint64_t nodes = 20 + random.Below(200) * random.Below(200) / 100;
    counts.push_back(static_cast<uint32_t>(nodes));
    counts.push_back(static_cast<uint32_t>(2 * nodes + random.Below(3 * nodes)));
  }
  return counts;
}

Limits LimitsOf(std::vector<uint64_t> capacities) {
  return Limits::Create(std::move(capacities)).value();
}

std::vector<uint32_t> Sorted(const EpochBatches& epoch) {
  std::vector<uint32_t> items;
  for (const auto& batch : AllBatches(epoch)) items.insert(items.end(), batch.begin(), batch.end());
  std::sort(items.begin(), items.end());
  return items;
}

std::vector<uint64_t> RowsOf(const World& world, absl::Span<const uint32_t> batch) {
  std::vector<uint64_t> rows(3, 0);
  for (const uint32_t item : batch) AddRows(world.sizes.tuple(item), 1, absl::MakeSpan(rows));
  return rows;
}

double MeanRatio(const World& world, uint64_t epochs) {
  double chance = 0;
  double of_shuffle = 0;
  EpochBatches last = world.Draw({7, 0}).value();
  for (uint64_t epoch = 1; epoch <= epochs; ++epoch) {
    EpochBatches next = world.Draw({7, epoch}).value();
    const Company company = CompanyOf(next, last);
    chance += company.chance;
    of_shuffle += company.of_shuffle;
    last = std::move(next);
  }
  return chance / of_shuffle;
}

TEST(CompanyTest, CountsPairsThatMeetAgain) {
  const std::vector<uint32_t> counts = {1, 1, 2, 2, 3, 3, 4, 4};
  const World world = MakeWorld(counts, LimitsOf({5, 5, kUnlimited}));
  const EpochBatches epoch =
      DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {1, 0}).value();
  ASSERT_EQ(epoch.num_batches(), 2U);
  // Two pairs of six are together, and again.
  const Company company = CompanyOf(epoch, epoch);
  EXPECT_EQ(company.chance, 1);
  EXPECT_EQ(company.of_shuffle, 2.0 / 6);
  EXPECT_EQ(company.Ratio(), 3);
}

TEST(CompanyTest, IsNothingWithoutPairs) {
  const World world = MakeWorld({3, 3, 4, 4}, LimitsOf({5, 5, kUnlimited}));
  const EpochBatches epoch = world.Draw({1, 0}).value();
  EXPECT_EQ(CompanyOf(epoch, epoch).chance, 0);
  EXPECT_EQ(CompanyOf(epoch, epoch).Ratio(), 0);
}

TEST(FreshBatchesTest, EachItemOnceWithinLimitsInAsManyBatches) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const World world =
        MakeWorld(DistinctSizes(300, seed),
                  LimitsOf({1200 + 100 * seed, 4800, seed == 1 ? uint64_t{7} : uint64_t{64}}));
    const EpochBatches drawn =
        DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {seed, 0}).value();
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
      PH_ASSERT_OK_AND_ASSIGN(const EpochBatches batches, world.Draw({seed, epoch}));
      EXPECT_EQ(Sorted(batches), Sorted(drawn));
      EXPECT_EQ(batches.num_batches(), drawn.num_batches());
      for (const auto& batch : AllBatches(batches)) {
        EXPECT_FALSE(batch.empty());
        const std::vector<uint64_t> rows = RowsOf(world, batch);
        for (size_t k = 0; k < rows.size(); ++k) {
          EXPECT_LE(rows[k], world.limits[0][0].capacity(k));
        }
      }
    }
  }
}

TEST(FreshBatchesTest, EpochsAreAsFreshAsAShuffle) {
  const World world = MakeWorld(DistinctSizes(2000, 5), LimitsOf({1800, 7000, kUnlimited}));
  const auto draw = [&](uint64_t epoch) {
    return DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {7, epoch})
        .value();
  };
  EXPECT_GT(CompanyOf(draw(1), draw(0)).Ratio(), 20);
  EXPECT_LT(MeanRatio(world, 8), 1.2);
}

TEST(FreshBatchesTest, TheSameSeedGivesTheSameBatches) {
  const World world = MakeWorld(DistinctSizes(500, 3), LimitsOf({1500, 6000, kUnlimited}));
  EXPECT_EQ(AllBatches(world.Draw({5, 2}).value()), AllBatches(world.Draw({5, 2}).value()));
  EXPECT_NE(AllBatches(world.Draw({5, 2}).value()), AllBatches(world.Draw({5, 3}).value()));
  EXPECT_NE(AllBatches(world.Draw({5, 2}).value()), AllBatches(world.Draw({6, 2}).value()));
}

// Draws of a plan for one size are fresh already.
TEST(FreshBatchesTest, WhatIsFreshStaysAsItIsDrawn) {
  std::vector<uint32_t> counts;
  for (int i = 0; i < 3000; ++i) counts.insert(counts.end(), {10, 20});
  const World world = MakeWorld(counts, LimitsOf({100, 210, kUnlimited}));
  for (uint64_t epoch = 0; epoch < 5; ++epoch) {
    const EpochBatches drawn =
        DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {9, epoch}).value();
    EXPECT_TRUE(AllBatches(world.Draw({9, epoch}).value()) == AllBatches(drawn)) << epoch;
  }
}

TEST(FreshBatchesTest, WithoutDealsItIsDrawnAlone) {
  const World world = MakeWorld(DistinctSizes(200, 3), LimitsOf({1500, 6000, kUnlimited}));
  FreshBatchesOptions options;
  options.most_deals = 0;
  EXPECT_EQ(
      AllBatches(world.Draw({5, 2}, {}, options).value()),
      AllBatches(
          DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {5, 2}).value()));
}

// Chi-square: 12 items of one size beside 24 of others. All 66 pairs of the twelve are equally
// likely to meet, whatever the epoch's shapes, rank groups and groups. The statistic has about 65
// degrees of freedom; 120 is exceeded with a probability below 5e-5.
TEST(FreshBatchesTest, ItemsOfOneSizeMeetEachOtherEquallyOften) {
  std::vector<uint32_t> counts;
  std::vector<uint64_t> ids;
  Random random(8);
  for (int i = 0; i < 36; ++i) {
    const auto nodes = static_cast<uint32_t>(i % 3 == 0 ? 40 : 10 + random.Below(90));
    counts.push_back(nodes);
    counts.push_back(i % 3 == 0 ? 90 : 2 * nodes);
    ids.push_back(random.Next());
  }
  const World world = MakeWorld(counts, LimitsOf({300, 680, kUnlimited}));
  const std::vector<Pattern>& all = world.plan.patterns;
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  const Limits limits = LimitsOf({300, 680, kUnlimited});
  const Limits smaller = LimitsOf({300, 500, kUnlimited});
  struct Case {
    std::string name;
    std::vector<std::vector<Pattern>> patterns;
    ShapeLimits limits;
    std::optional<absl::Span<const uint64_t>> group_ids;
  };
  for (const Case& of : {Case{"one shape", {all}, {{limits}}, {}},
                         Case{"two shapes", {all}, {{limits, smaller}}, {}},
                         Case{"rank groups",
                              {{all.begin(), middle}, {middle, all.end()}},
                              {{LimitsOf({330, 720, kUnlimited})}, {limits}},
                              {}},
                         Case{"groups", {all}, {{limits}}, absl::MakeConstSpan(ids)}}) {
    SCOPED_TRACE(of.name);
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> met;
    uint64_t meetings = 0;
    for (uint64_t epoch = 0; epoch < 4000; ++epoch) {
      PH_ASSERT_OK_AND_ASSIGN(const EpochBatches drawn,
                              DrawFreshEpoch(world.classes, of.patterns, world.sizes, of.limits,
                                             {3, epoch}, of.group_ids));
      for (auto batch : AllBatches(drawn)) {
        std::sort(batch.begin(), batch.end());
        for (size_t i = 0; i < batch.size(); ++i) {
          for (size_t j = i + 1; j < batch.size(); ++j) {
            if (batch[i] % 3 != 0 || batch[j] % 3 != 0) continue;
            ++met[{batch[i], batch[j]}];
            ++meetings;
          }
        }
      }
    }
    const double expected = static_cast<double>(meetings) / 66;
    double chi_square = 0;
    for (uint32_t a = 0; a < 36; a += 3) {
      for (uint32_t b = a + 3; b < 36; b += 3) {
        const double difference = static_cast<double>(met[{a, b}]) - expected;
        chi_square += difference * difference / expected;
      }
    }
    EXPECT_LT(chi_square, 120);
    EXPECT_GT(chi_square, 25);
  }
}

// A bound that is no limit: here of graphs, as of bytes.
TEST(FreshBatchesTest, NoBatchIsMadeThatIsNotTaken) {
  size_t num_beyond = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const World world = MakeWorld(DistinctSizes(400, seed), LimitsOf({1500, 6000, kUnlimited}));
    const auto most_graphs = [](const EpochBatches& epoch) {
      size_t most = 0;
      for (const auto& batch : AllBatches(epoch)) most = std::max(most, batch.size());
      return most;
    };
    const size_t most = most_graphs(
        DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {seed, 1}).value());
    FreshBatchesOptions options;
    options.takes = [&](size_t rank_group, size_t shape, absl::Span<const uint64_t> rows) {
      EXPECT_EQ(rank_group, 0U);
      EXPECT_EQ(shape, 0U);
      EXPECT_EQ(rows.size(), 3U);
      return rows.back() <= most;
    };
    PH_ASSERT_OK_AND_ASSIGN(const EpochBatches batches, world.Draw({seed, 1}, {}, options));
    EXPECT_LE(most_graphs(batches), most);
    num_beyond += most_graphs(world.Draw({seed, 1}).value()) > most ? 1 : 0;
  }
  // Or the law would say nothing.
  EXPECT_GT(num_beyond, 0U);
}

// Of two shapes, each batch keeps its own.
TEST(FreshBatchesTest, BatchesKeepTheirShapes) {
  std::vector<uint32_t> counts = DistinctSizes(400, 6);
  World world = MakeWorld(counts, LimitsOf({1000, 4000, kUnlimited}));
  const Limits small = LimitsOf({1000, 3500, kUnlimited});
  world.limits = {{LimitsOf({1000, 4000, kUnlimited}), small}};
  const auto is_small = [&](absl::Span<const uint32_t> batch) {
    const std::vector<uint64_t> rows = RowsOf(world, batch);
    return rows[0] <= small.capacity(0) && rows[1] <= small.capacity(1);
  };
  const EpochBatches drawn =
      DrawEpoch(world.classes, absl::MakeConstSpan(&world.plan.patterns, 1), {2, 1}).value();
  const EpochBatches fresh = world.Draw({2, 1}).value();
  ASSERT_EQ(fresh.num_batches(), drawn.num_batches());
  size_t num_small = 0;
  for (size_t b = 0; b < drawn.num_batches(); ++b) {
    num_small += is_small(drawn.batch(b)) ? 1 : 0;
    EXPECT_EQ(is_small(drawn.batch(b)), is_small(fresh.batch(b)));
    EXPECT_LE(RowsOf(world, fresh.batch(b))[1], 4000U);
  }
  EXPECT_GT(num_small, 5U);
  EXPECT_LT(num_small, drawn.num_batches() - 5);
  EXPECT_LT(CompanyOf(fresh, drawn).chance, 0.5);
}

TEST(FreshBatchesTest, BatchesOfRankGroupsKeepTheirLimits) {
  World world = MakeWorld(DistinctSizes(400, 9), LimitsOf({1000, 4000, kUnlimited}));
  // The first rank group has the larger limits.
  const std::vector<Pattern>& patterns = world.plan.patterns;
  const size_t half = patterns.size() / 2;
  const std::vector<std::vector<Pattern>> by_rank_group = {
      {patterns.begin(), patterns.begin() + half}, {patterns.begin() + half, patterns.end()}};
  world.limits = {{LimitsOf({1400, 5000, kUnlimited})}, {LimitsOf({1000, 4000, kUnlimited})}};
  PH_ASSERT_OK_AND_ASSIGN(
      const EpochBatches epoch,
      DrawFreshEpoch(world.classes, by_rank_group, world.sizes, world.limits, {4, 4}));
  ASSERT_EQ(epoch.first_batches().size(), 3U);
  uint64_t beyond = 0;
  for (size_t b = 0; b < epoch.num_batches(); ++b) {
    const std::vector<uint64_t> rows = RowsOf(world, epoch.batch(b));
    const Limits& limits = world.limits[b < epoch.first_batches()[1] ? 0 : 1][0];
    EXPECT_LE(rows[0], limits.capacity(0));
    EXPECT_LE(rows[1], limits.capacity(1));
    beyond += rows[0] > 1000 ? 1 : 0;
  }
  EXPECT_GT(beyond, 0U);
}

TEST(FreshBatchesTest, EveryBudgetIsEnoughOrIsRefusedAndNothingStays) {
  const World world = MakeWorld(DistinctSizes(100, 2), LimitsOf({1500, 6000, kUnlimited}));
  bool was_refused = false;
  for (uint64_t bytes = 0;; bytes += 97) {
    MemoryBudget budget(bytes);
    const Making making(&budget, nullptr);
    const auto batches = world.Draw({1, 1}, making);
    if (batches.ok()) {
      // What a draw alone holds.
      FreshBatchesOptions alone;
      alone.most_deals = 0;
      MemoryBudget enough(bytes);
      const auto drawn = world.Draw({1, 1}, Making(&enough, nullptr), alone);
      EXPECT_EQ(budget.held(), enough.held());
      break;
    }
    was_refused = true;
    EXPECT_EQ(batches.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(budget.held(), 0U);
  }
  EXPECT_TRUE(was_refused);
}

TEST(FreshBatchesTest, CompanyIsMeasuredInReservedMemory) {
  const World world = MakeWorld(DistinctSizes(1000, 2), LimitsOf({1500, 6000, kUnlimited}));
  PH_ASSERT_OK_AND_ASSIGN(const EpochBatches batches, world.Draw({1, 1}, Making()));
  SeenBudget seen;
  EXPECT_THAT(MeasureCompany(batches, batches, Making(seen.memory(), nullptr)), IsOk());
  // The batch of each item, and how many there are of each batch.
  EXPECT_GE(seen.highs().back(), sizeof(uint32_t) * (batches.num_items() + batches.num_batches()));
  EXPECT_EQ(seen.held(), 0U);
}

TEST(FreshBatchesTest, IsGivenUpAtEachStep) {
  const World world = MakeWorld(DistinctSizes(1000, 2), LimitsOf({1500, 6000, kUnlimited}));
  for (int step = 0;; ++step) {
    int asked = 0;
    const Making making(nullptr, [&] { return asked++ == step; });
    const auto batches = world.Draw({1, 1}, making);
    if (asked <= step) {
      EXPECT_TRUE(batches.ok()) << batches.status();
      EXPECT_GT(step, 3);
      break;
    }
    EXPECT_EQ(batches.status().code(), absl::StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace packhouse
