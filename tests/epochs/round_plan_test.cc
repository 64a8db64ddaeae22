#include "service/engine/epochs/round_plan.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

OptimizerOptions Quick(uint64_t steps = 50'000) {
  OptimizerOptions options;
  options.steps = steps;
  return options;
}

// What a plan of rounds promises, checked from the outside.
void ExpectRoundsHold(const RoundPlan& plan, const SizeHistogram& histogram,
                      absl::Span<const RankGroup> rank_groups) {
  const PlanItems items = ItemsOf(histogram);
  std::vector<uint64_t> used(items.counts.size(), 0);
  ASSERT_EQ(plan.patterns_by_rank_group.size(), rank_groups.size());
  for (size_t j = 0; j < rank_groups.size(); ++j) {
    const Limits& limits = rank_groups[j].limits;
    uint64_t packs = 0;
    for (const Pattern& pattern : plan.patterns_by_rank_group[j]) {
      std::vector<uint64_t> rows(limits.num_components() + 1, 0);
      for (const auto& [tuple, copies] : pattern.entries) {
        ASSERT_LT(tuple, used.size());
        used[tuple] += copies * pattern.repeats;
        for (size_t k = 0; k < limits.num_components(); ++k) {
          rows[k] += uint64_t{items.empty_plan.tuple(tuple)[k]} * copies;
        }
        rows.back() += copies;
      }
      for (size_t k = 0; k < rows.size(); ++k) EXPECT_LE(rows[k], limits.capacity(k));
      packs += pattern.repeats;
    }
    EXPECT_LE(packs, plan.rounds * rank_groups[j].num_ranks);
  }
  EXPECT_EQ(used, items.counts);
  EXPECT_LE(plan.lower_bound, plan.rounds);
}

TEST(PlanRoundsTest, EveryGraphIsInOneBatchOfARankGroupThatTakesIt) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const std::vector<uint32_t> counts = FewSizes(random.Below(200), seed);
    const SizeHistogram histogram =
        SizeClasses::Create(NodesAndEdges(counts)).value().Histogram().value();
    std::vector<RankGroup> rank_groups;
    for (size_t j = random.Below(4); j != 0; --j) {
      rank_groups.push_back(
          {Limits::Create({random.Between(1, 30), random.Between(1, 30),
                           random.Below(2) == 0 ? kUnlimited : random.Between(1, 9)})
               .value(),
           static_cast<uint32_t>(random.Between(1, 4))});
    }
    rank_groups.push_back({Limits::Create({5, 6, 9}).value(), 1});
    PH_ASSERT_OK_AND_ASSIGN(const RoundPlan plan, PlanRounds(histogram, rank_groups, Quick()));
    ExpectRoundsHold(plan, histogram, rank_groups);
    PH_ASSERT_OK_AND_ASSIGN(const RoundPlan again, PlanRounds(histogram, rank_groups, Quick()));
    EXPECT_EQ(plan.patterns_by_rank_group, again.patterns_by_rank_group);
  }
}

// What a planner of a version finds for rank groups stays: another is another version.
TEST(PlanRoundsTest, FindsTheSameInEveryRelease) {
  std::string found;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    const std::vector<uint32_t> counts = FewSizes(random.Between(20, 200), seed);
    const SizeHistogram histogram =
        SizeClasses::Create(NodesAndEdges(counts)).value().Histogram().value();
    std::vector<RankGroup> rank_groups = {{Limits::Create({40, 60, 20}).value(), 2}};
    for (size_t j = random.Between(1, 3); j != 0; --j) {
      rank_groups.push_back({Limits::Create({random.Between(3, 30), random.Between(4, 30),
                                             random.Below(2) == 0 ? kUnlimited : 9})
                                 .value(),
                             static_cast<uint32_t>(random.Between(1, 4))});
    }
    PH_ASSERT_OK_AND_ASSIGN(const RoundPlan plan, PlanRounds(histogram, rank_groups, Quick()));
    absl::StrAppend(&found, plan.rounds, " ", plan.lower_bound, ":");
    for (const std::vector<Pattern>& patterns : plan.patterns_by_rank_group) {
      for (const Pattern& pattern : patterns) {
        absl::StrAppend(&found, " ", pattern.repeats, "*");
        for (const auto& [tuple, copies] : pattern.entries) {
          absl::StrAppend(&found, tuple, "x", copies, ",");
        }
      }
      found += ";";
    }
  }
  EXPECT_EQ(Crc32c(found), 1607378674U);
}

TEST(PlanRoundsTest, OneRankGroupIsAnOrdinaryPlan) {
  const std::vector<uint32_t> counts = FewSizes(200, 1);
  const SizeHistogram histogram =
      SizeClasses::Create(NodesAndEdges(counts)).value().Histogram().value();
  const Limits limits = Limits::Create({12, 14, 7}).value();
  PH_ASSERT_OK_AND_ASSIGN(const RoundPlan plan, PlanRounds(histogram, {{limits, 3}}, Quick()));
  PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified, OptimizePlan(histogram, limits, Quick()));
  EXPECT_EQ(plan.patterns_by_rank_group[0], certified.plan.patterns);
  EXPECT_EQ(plan.rounds, (certified.packs + 2) / 3);
}

// Real molecules, cards of different memory: within 1 % of the bound on rounds.
TEST(PlanRoundsTest, RealMoleculesOnUnequalCardsNearTheBound) {
  const auto histogram = ReadHistogram("molhiv_train");
  if (!histogram) GTEST_SKIP() << "no data";
  const RankGroup small = {Limits::Create({222, 502, kUnlimited}).value(), 4};
  const RankGroup medium = {Limits::Create({512, 1152, kUnlimited}).value(), 2};
  const RankGroup large = {Limits::Create({1024, 2304, 64}).value(), 1};
  for (const std::vector<RankGroup>& rank_groups :
       {std::vector<RankGroup>{small, medium}, {medium, large}, {small, medium, large}}) {
    PH_ASSERT_OK_AND_ASSIGN(
        const RoundPlan plan,
        PlanRounds(*histogram, rank_groups, Quick(OptimizerOptions::kDefaultSteps)));
    ExpectRoundsHold(plan, *histogram, rank_groups);
    EXPECT_LE(plan.rounds * 100, plan.lower_bound * 101);
    RecordProperty("rounds", static_cast<int>(plan.rounds));
    RecordProperty("lower_bound", static_cast<int>(plan.lower_bound));
    // Ranks of all rank groups have work in nearly all rounds.
    for (size_t j = 0; j < rank_groups.size(); ++j) {
      uint64_t packs = 0;
      for (const Pattern& pattern : plan.patterns_by_rank_group[j]) packs += pattern.repeats;
      EXPECT_GE(packs * 100, plan.rounds * rank_groups[j].num_ranks * 98) << "rank group " << j;
    }
  }
}

// Where only one rank group takes the large graphs, it may have to take nothing else.
TEST(PlanRoundsTest, TheBoundSeesGraphsThatFewRanksTake) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({{100}}, 50), IsOk());
  ASSERT_THAT(histogram.Add({{10}}, 20), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const RoundPlan plan, PlanRounds(histogram,
                                                           {{Limits::Create({10, 8}).value(), 7},
                                                            {Limits::Create({100, 8}).value(), 1}},
                                                           Quick()));
  EXPECT_EQ(plan.lower_bound, 50U);
  EXPECT_EQ(plan.rounds, 50U);
}

TEST(PlanRoundsTest, Refuses) {
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({{11}}, 1), IsOk());
  const Limits limits = Limits::Create({10, 8}).value();
  const auto refused = [&](const std::vector<RankGroup>& rank_groups) {
    return PlanRounds(histogram, rank_groups, Quick()).status();
  };
  EXPECT_EQ(refused({}), absl::InvalidArgumentError("rank_groups: 0, must be 1 to 16"));
  EXPECT_EQ(refused(std::vector<RankGroup>(17, {limits, 1})),
            absl::InvalidArgumentError("rank_groups: 17, must be 1 to 16"));
  EXPECT_EQ(refused({{limits, 0}}), absl::InvalidArgumentError("rank group 0: has no ranks"));
  EXPECT_EQ(refused({{limits, 1}, {Limits::Create({3}).value(), 1}}),
            absl::InvalidArgumentError("rank group 1: limits of 0 components, the histogram has "
                                       "1"));
  const absl::Status too_large =
      absl::OutOfRangeError("a graph of size (11) exceeds the limits of every rank group");
  EXPECT_EQ(refused({{limits, 1}, {limits, 2}}), too_large);
  constexpr auto kMost = static_cast<uint32_t>(RoundPlan::kMaxRanks);
  EXPECT_EQ(refused({{limits, kMost - 2}, {limits, 2}}), too_large);
  EXPECT_EQ(refused({{limits, kMost - 1}, {limits, 2}}),
            absl::InvalidArgumentError(
                absl::StrCat("rank_groups: ", kMost + 1, " ranks, at most ", kMost)));
}

}  // namespace
}  // namespace packhouse
