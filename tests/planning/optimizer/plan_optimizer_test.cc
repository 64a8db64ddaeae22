#include "service/algorithms/planning/optimizer/plan_optimizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/first_fit_decreasing.h"
#include "service/algorithms/planning/optimizer/plan_receipt.h"
#include "service/algorithms/planning/packing_problem.h"
#include "tests/planning/exact_solver.h"
#include "tests/planning/plan_fingerprint.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/planning/vector_levels.h"
#include "tests/support/random.h"
#include "tests/support/shared_data.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

OptimizerOptions StepsOf(uint64_t steps) {
  OptimizerOptions options;
  options.steps = steps;
  return options;
}

uint64_t FirstFitDecreasingPacks(const SizeHistogram& histogram, const Limits& limits) {
  PackingPlan plan;
  plan.patterns = PlanByFirstFitDecreasing(PackingProblem(histogram, limits), BestVectorLevel());
  return plan.num_packs();
}

// What holds for every plan of every method.
void ExpectCertified(const CertifiedPlan& certified, const SizeHistogram& histogram,
                     const Limits& limits, const OptimizerOptions& options) {
  EXPECT_THAT(VerifyPlan(certified.plan, histogram, limits), IsOk());
  EXPECT_EQ(certified.plan.tuples, ItemsOf(histogram).empty_plan.tuples);
  EXPECT_EQ(certified.packs, certified.plan.num_packs());
  EXPECT_LE(certified.bound.packs, certified.packs);
  EXPECT_GE(certified.bound.packs, ComputeVolumeBound(histogram, limits).packs);
  EXPECT_EQ(certified.optimal(), certified.packs == certified.bound.packs);
  EXPECT_LE(certified.steps, options.steps);
}

void ExpectSame(const CertifiedPlan& a, const CertifiedPlan& b) {
  EXPECT_EQ(a.plan.tuples, b.plan.tuples);
  EXPECT_EQ(a.plan.patterns, b.plan.patterns);
  EXPECT_EQ(a.packs, b.packs);
  EXPECT_EQ(a.bound.packs, b.bound.packs);
  EXPECT_EQ(a.bound.kind, b.bound.kind);
  EXPECT_EQ(a.bound.component, b.bound.component);
  EXPECT_EQ(a.method, b.method);
  EXPECT_EQ(a.steps, b.steps);
}

// --- Against the optimum.

struct Score {
  int worlds = 0;
  int optimal = 0;
  int proved = 0;
};

// bound <= optimum <= packs.
void CompareWithOptimum(const SizeHistogram& histogram, const Limits& limits, Score& score) {
  const uint64_t optimum = OptimalPacks(histogram, limits);
  const OptimizerOptions options = StepsOf(1'000'000);
  PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified, OptimizePlan(histogram, limits, options));
  ExpectCertified(certified, histogram, limits, options);
  ASSERT_LE(certified.bound.packs, optimum);
  ASSERT_GE(certified.packs, optimum);
  ++score.worlds;
  score.optimal += certified.packs == optimum;
  score.proved += certified.optimal();
}

// Graphs that weigh nothing share one pack, however many there are.
TEST(OptimizePlanTest, GraphsWithoutRowsNeedOnePack) {
  for (const uint64_t many : {uint64_t{1}, uint64_t{1} << 33, uint64_t{1'000'000'000'000}}) {
    SizeHistogram histogram(2);
    ASSERT_THAT(histogram.Add({0, 3}, many), IsOk());
    ASSERT_THAT(histogram.Add({0, 5}, many), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const Limits limits, Limits::Create({64, kUnlimited, kUnlimited}));
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan plan, OptimizePlan(histogram, limits, {}));
    EXPECT_THAT(VerifyPlan(plan.plan, histogram, limits), IsOk());
    EXPECT_EQ(plan.packs, 1);
    EXPECT_EQ(plan.bound.packs, 1);
  }
}

// Measured: the optimum in all of them, proved in all of them.
TEST(PlanOptimizerOptimumTest, AllWorldsOfOneComponent) {
  std::vector<std::vector<uint32_t>> tuples;
  for (uint32_t size = 0; size <= 7; ++size) tuples.push_back({size});
  Score score;
  for (const uint64_t graphs : {uint64_t{1}, uint64_t{2}, uint64_t{3}, kUnlimited}) {
    const Limits limits = LimitsOf({7, graphs});
    ForEachHistogram(tuples, 5, [&](const SizeHistogram& histogram) {
      CompareWithOptimum(histogram, limits, score);
    });
  }
  EXPECT_EQ(score.worlds, 4 * 1287);
  EXPECT_EQ(score.optimal, score.worlds);
  EXPECT_GE(score.proved, 0.99 * score.worlds) << score.proved;
}

// Measured: the optimum in all of them, proved in all of them.
TEST(PlanOptimizerOptimumTest, AllWorldsOfTwoComponents) {
  std::vector<std::vector<uint32_t>> tuples;
  for (uint32_t nodes = 0; nodes <= 2; ++nodes) {
    for (uint32_t edges = 0; edges <= 3; ++edges) tuples.push_back({nodes, edges});
  }
  Score score;
  for (const uint64_t graphs : {uint64_t{2}, kUnlimited}) {
    const Limits limits = LimitsOf({2, 3, graphs});
    ForEachHistogram(tuples, 4, [&](const SizeHistogram& histogram) {
      CompareWithOptimum(histogram, limits, score);
    });
  }
  EXPECT_EQ(score.worlds, 2 * 1820);
  EXPECT_EQ(score.optimal, score.worlds);
  EXPECT_GE(score.proved, 0.99 * score.worlds) << score.proved;
}

// Ten graphs in one to six components. Measured: the optimum in 5999 of 6000, proved in 5887; what
// is not proved is mostly in rooms too many for column generation.
TEST(PlanOptimizerOptimumTest, RandomWorlds) {
  Score score;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_components = random.Below(2) == 0 ? 2u : 6u,
                                     .max_distinct = 10,
                                     .max_count = 1,
                                     .max_capacity = random.Below(2) == 0 ? 30u : 1000u});
    CompareWithOptimum(histogram, limits, score);
    if (HasFailure()) return;
  }
  EXPECT_GE(score.optimal, 0.998 * score.worlds) << score.optimal;
  EXPECT_GE(score.proved, 0.97 * score.worlds) << score.proved;
}

// Worlds in which packs are full, as in practice, and few sizes are often repeated. Measured: the
// optimum in all of 5000, proved in 4974.
TEST(PlanOptimizerOptimumTest, RandomWorldsOfFewSizes) {
  Score score;
  for (uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Between(1, 3);
    SizeHistogram histogram(l);
    std::vector<uint64_t> capacities(l, random.Between(10, 40));
    capacities.push_back(random.Below(2) == 0 ? kUnlimited : random.Between(2, 5));
    for (uint64_t i = random.Between(1, 4); i != 0 && histogram.num_graphs() < 9; --i) {
      std::vector<uint32_t> tuple;
      for (size_t k = 0; k < l; ++k) {
        tuple.push_back(static_cast<uint32_t>(random.Between(1, capacities[k] * 2 / 3)));
      }
      ASSERT_THAT(histogram.Add(tuple, random.Between(1, 10 - histogram.num_graphs())), IsOk());
    }
    CompareWithOptimum(histogram, LimitsOf(std::move(capacities)), score);
    if (HasFailure()) return;
  }
  EXPECT_GE(score.optimal, 0.998 * score.worlds) << score.optimal;
  EXPECT_GE(score.proved, 0.985 * score.worlds) << score.proved;
}

// --- Laws.

// Packing may reorder graphs, never lose, repeat or overfill; never more packs than first-fit
// decreasing has.
TEST(PlanOptimizerTest, EveryPlanPartitionsItsHistogram) {
  Fingerprint plans;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_distinct = random.Below(4) == 0 ? 300u : 30u,
                                     .max_capacity = random.Below(2) == 0 ? 60u : 3000u});
    OptimizerOptions options;
    options.steps = random.Below(3'000'000);
    options.seed = random.Next();
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(histogram, limits, options));
    ExpectCertified(certified, histogram, limits, options);
    EXPECT_LE(certified.packs, FirstFitDecreasingPacks(histogram, limits));
    AddPlan(certified, plans);
    if (HasFailure()) return;
  }
  EXPECT_EQ(plans.value(), 11575991969707837538U);
}

// Twice, with every kind of vector instructions, and whatever the order in which graphs came.
TEST(PlanOptimizerTest, SameArgumentsSamePlan) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] =
        RandomPlanningWorld(random, {.max_distinct = 100, .max_capacity = 100});
    SizeHistogram backwards(histogram.num_components());
    for (size_t row = histogram.num_distinct(); row-- > 0;) {
      ASSERT_THAT(backwards.Add(histogram.tuple(row), histogram.count(row)), IsOk());
    }
    OptimizerOptions options = StepsOf(1'000'000);
    options.seed = seed;
    options.vector_level = VectorLevel::kPlain;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan plain, OptimizePlan(histogram, limits, options));
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan other, OptimizePlan(backwards, limits, options));
    ExpectSame(plain, other);
    for (const VectorLevel level : VectorLevelsHere()) {
      options.vector_level = level;
      PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan again, OptimizePlan(histogram, limits, options));
      ExpectSame(plain, again);
    }
    if (HasFailure()) return;
  }
}

TEST(PlanOptimizerTest, WithoutStepsItIsFirstFitDecreasing) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const OptimizerOptions options = StepsOf(0);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(histogram, limits, options));
    ExpectCertified(certified, histogram, limits, options);
    EXPECT_EQ(certified.packs, FirstFitDecreasingPacks(histogram, limits));
    EXPECT_EQ(certified.method, PlanMethod::kFirstFitDecreasing);
    EXPECT_EQ(certified.steps, 0);
    EXPECT_EQ(certified.bound.kind, LowerBoundKind::kVolume);
    if (HasFailure()) return;
  }
}

// Wherever the budget ends.
TEST(PlanOptimizerTest, SmallBudgetsNeverFail) {
  Fingerprint plans;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_capacity = 30});
    for (uint64_t steps = 1; steps < 1'000'000; steps += 1 + random.Below(steps)) {
      const OptimizerOptions options = StepsOf(steps);
      PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                              OptimizePlan(histogram, limits, options));
      ExpectCertified(certified, histogram, limits, options);
      AddPlan(certified, plans);
      if (certified.optimal() && certified.steps < steps) break;
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ(plans.value(), 16871939978268391525U);
}

TEST(PlanOptimizerTest, WhoGivesUpGetsNoPlan) {
  Random random(0);
  SizeHistogram histogram(3);
  for (int i = 0; i < 300; ++i) {
    std::vector<uint32_t> tuple(3);
    for (uint32_t& size : tuple) size = static_cast<uint32_t>(random.Between(1, 5000));
    ASSERT_THAT(histogram.Add(tuple, random.Between(1, 20)), IsOk());
  }
  const Limits limits = LimitsOf({9000, 9000, 9000, 50});
  for (const int patience : {1, 2, 7, 30, 200}) {
    int asked = 0;
    OptimizerOptions options;
    options.is_cancelled = [&] { return ++asked >= patience; };
    EXPECT_THAT(OptimizePlan(histogram, limits, options),
                StatusIs(absl::StatusCode::kCancelled, "plan: given up by the caller"))
        << patience;
    EXPECT_LE(asked, patience + 1) << "and the work ends at once";
  }
  OptimizerOptions patient = StepsOf(3'000'000);
  patient.is_cancelled = [] { return false; };
  EXPECT_THAT(OptimizePlan(histogram, limits, patient), IsOk());
}

// --- Worlds at the edge.

TEST(PlanOptimizerEdgeTest, AnEmptyHistogramNeedsNoPack) {
  for (const size_t l : {0, 1, 3}) {
    const Limits limits = LimitsOf(std::vector<uint64_t>(l + 1, 10));
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(SizeHistogram(l), limits, {}));
    EXPECT_THAT(certified.plan.patterns, IsEmpty());
    EXPECT_EQ(certified.packs, 0);
    EXPECT_TRUE(certified.optimal());
  }
}

struct EdgeWorld {
  std::string name;
  SizeHistogram histogram;
  Limits limits;
  // The optimum, which is expected and proved.
  uint64_t packs;
};

TEST(PlanOptimizerEdgeTest, OptimaByHand) {
  constexpr uint64_t kMany = uint64_t{1} << 60;
  const EdgeWorld worlds[] = {
      {"zero-size graphs alone", HistogramOf(2, {{{0, 0}, 9}}), LimitsOf({10, 10, kUnlimited}), 1},
      {"zero-size graphs, so many a pack", HistogramOf(2, {{{0, 0}, 9}}), LimitsOf({10, 10, 2}), 5},
      {"zero-size graphs beside others", HistogramOf(1, {{{0}, 9}, {{6}, 3}, {{4}, 3}}),
       LimitsOf({10, kUnlimited}), 3},
      {"zero-size graphs take places", HistogramOf(1, {{{0}, 9}, {{6}, 3}, {{4}, 3}}),
       LimitsOf({10, 3}), 5},
      {"more zero-size graphs than one entry holds",
       HistogramOf(1, {{{0}, uint64_t{5} << 32}, {{6}, 3}}), LimitsOf({10, kUnlimited}), 3},
      {"all graphs equal", HistogramOf(2, {{{3, 4}, 100}}), LimitsOf({10, 100, kUnlimited}), 34},
      {"graphs exactly as large as the limits", HistogramOf(2, {{{10, 7}, 100}}),
       LimitsOf({10, 7, kUnlimited}), 100},
      {"one graph exactly as large as the limits", HistogramOf(2, {{{10, 7}, 1}}),
       LimitsOf({10, 7, 1}), 1},
      {"large in different components", HistogramOf(2, {{{10, 0}, 5}, {{0, 7}, 5}}),
       LimitsOf({10, 7, kUnlimited}), 5},
      {"graphs alone are limited", HistogramOf(2, {{{1, 2}, 50}, {{0, 0}, 50}}),
       LimitsOf({kUnlimited, kUnlimited, 7}), 15},
      {"no components", HistogramOf(0, {{{}, 10}}), LimitsOf({4}), 3},
      {"everything fits one pack", HistogramOf(2, {{{1, 2}, 50}}), LimitsOf({50, 100, 50}), 1},
      {"one graph too many", HistogramOf(2, {{{1, 2}, 51}}), LimitsOf({50, 102, 51}), 2},
      {"a graph a pack", HistogramOf(1, {{{1}, 5}, {{2}, 5}}), LimitsOf({9, 1}), 10},
      {"counts of 2^60", HistogramOf(1, {{{6}, kMany}, {{4}, kMany}}), LimitsOf({10, kUnlimited}),
       kMany},
      {"counts of 2^60, odd", HistogramOf(1, {{{5}, kMany + 1}}), LimitsOf({10, kUnlimited}),
       kMany / 2 + 1},
      {"counts of 2^60 by graphs", HistogramOf(2, {{{1, 0}, kMany}, {{0, 1}, kMany}}),
       LimitsOf({kUnlimited, 8, 4}), kMany / 2},
      {"sizes of 2^32 - 1", HistogramOf(1, {{{UINT32_MAX}, 12}}),
       LimitsOf({uint64_t{UINT32_MAX} * 5, kUnlimited}), 3},
      {"sizes of 2^32 - 1 and one row more",
       HistogramOf(1, {{{UINT32_MAX}, 12}, {{1}, 1}, {{UINT32_MAX - 1}, 3}}),
       LimitsOf({uint64_t{UINT32_MAX} * 5, kUnlimited}), 3},
      {"capacities beyond what binds", HistogramOf(2, {{{UINT32_MAX, 1}, uint64_t{1} << 31}}),
       LimitsOf({(uint64_t{1} << 63) - 1, kUnlimited, kUnlimited}), 1},
      {"capacities near 2^63", HistogramOf(2, {{{UINT32_MAX, UINT32_MAX}, UINT32_MAX}}),
       LimitsOf({(uint64_t{1} << 63) - 1, (uint64_t{1} << 63) + 5, kUnlimited}), 2}};
  for (const EdgeWorld& world : worlds) {
    SCOPED_TRACE(world.name);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(world.histogram, world.limits, {}));
    ExpectCertified(certified, world.histogram, world.limits, {});
    EXPECT_EQ(certified.packs, world.packs);
    EXPECT_TRUE(certified.optimal());
  }
}

// A pattern names at most 2^32 - 1 copies of a tuple: such packs need not be full, but they are
// packs, and they come in time.
TEST(PlanOptimizerEdgeTest, PacksMayHoldBillionsOfGraphs) {
  constexpr uint64_t kMany = uint64_t{1} << 60;
  const std::pair<SizeHistogram, Limits> worlds[] = {
      {HistogramOf(1, {{{1}, kMany}}), LimitsOf({kMany / 3, kUnlimited})},
      {HistogramOf(1, {{{1}, kMany}, {{3}, kMany}, {{UINT32_MAX}, 1000}}),
       LimitsOf({kMany - 1, kUnlimited})},
      {HistogramOf(2, {{{1, 0}, kMany}, {{0, 1}, kMany}, {{5, 7}, kMany}}),
       LimitsOf({(uint64_t{1} << 62) - 1, uint64_t{1} << 61, kUnlimited})},
      {HistogramOf(1, {{{2000000000}, 1000000}, {{1}, 1000000000}}),
       LimitsOf({4400000000, kUnlimited})}};
  for (const auto& [histogram, limits] : worlds) {
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified, OptimizePlan(histogram, limits, {}));
    ExpectCertified(certified, histogram, limits, {});
  }
}

// Graphs without any size do not keep column generation from its proof.
// Ego networks: edges grow like the square of the nodes, and near-cliques leave room for nodes that
// only the sparsest graphs can fill. Of 5,000 such graphs, drawn one by one in proportion to what
// is left, plans are 5 % above the bound.
TEST(PlanOptimizerTest, DenseGraphsGetTheSparseOnesThatFillWhatTheyLeave) {
  for (const uint64_t seed : {20220, 1, 2, 3}) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SizeHistogram histogram(2);
    for (int i = 0; i < 5000; ++i) {
      uint64_t nodes = random.Between(240, 490);
      uint64_t edges = random.Between(57'000, 80'000);
      if (random.Below(100) >= 6) {
        nodes = 30 + std::min(random.Below(171), random.Below(171));
        edges = nodes * (nodes - 1) * (20 + random.Below(40) * random.Below(16)) / 1000;
        edges = std::clamp<uint64_t>(edges, 100, 10'000);
      }
      edges = std::min(edges, nodes * (nodes - 1));
      ASSERT_THAT(histogram.Add({static_cast<uint32_t>(nodes), static_cast<uint32_t>(edges)}),
                  IsOk());
    }
    const Limits limits = LimitsOf({1225, 80'000, kUnlimited});
    OptimizerOptions options;
    options.steps = OptimizerOptions::StepsFor(histogram, limits);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(histogram, limits, options));
    ExpectCertified(certified, histogram, limits, options);
    // Measured: proved optimal.
    EXPECT_LE(1000 * certified.packs, 1005 * certified.bound.packs);
  }
}

TEST(PlanOptimizerEdgeTest, ZeroSizeGraphsChangeNothing) {
  int proved = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SizeHistogram histogram(1);
    for (int i = 0; i < 12; ++i) {
      const auto size = static_cast<uint32_t>(random.Between(10, 60));
      ASSERT_THAT(histogram.Add({{size}}, random.Between(1, 30)), IsOk());
    }
    const Limits limits = LimitsOf({100, kUnlimited});
    const OptimizerOptions options = StepsOf(2'000'000);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan without, OptimizePlan(histogram, limits, options));
    ASSERT_THAT(histogram.Add({{0}}, random.Between(1, 30)), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan with, OptimizePlan(histogram, limits, options));
    EXPECT_EQ(with.packs, without.packs);
    EXPECT_EQ(with.bound.packs, without.bound.packs);
    proved += with.bound.kind == LowerBoundKind::kLinearProgram && with.optimal();
    if (HasFailure()) return;
  }
  EXPECT_GT(proved, 20);
}

// --- Warm starts.

// The same histogram again: what was reached is not lost, however few the steps.
TEST(PlanOptimizerWarmStartTest, NeverMorePacksThanThePlanItStartsFrom) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan earlier,
                            OptimizePlan(histogram, limits, StepsOf(500'000)));
    for (const uint64_t steps : {0, 1, 1000, 500'000}) {
      OptimizerOptions options = StepsOf(steps);
      options.seed = random.Below(3);
      options.warm_start = &earlier.plan;
      PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                              OptimizePlan(histogram, limits, options));
      ExpectCertified(certified, histogram, limits, options);
      EXPECT_LE(certified.packs, earlier.packs);
      PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan again, OptimizePlan(histogram, limits, options));
      ExpectSame(certified, again);
    }
    if (HasFailure()) return;
  }
}

// A plan of one graph a pack, which anything beats.
TEST(PlanOptimizerWarmStartTest, ABadPlanDoesNoHarm) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    PlanItems items = ItemsOf(histogram);
    PackingPlan bad = std::move(items.empty_plan);
    for (uint32_t i = 0; i < items.counts.size(); ++i) {
      bad.patterns.push_back({{{i, 1}}, items.counts[i]});
    }
    OptimizerOptions options = StepsOf(random.Below(2) == 0 ? 0 : 500'000);
    options.warm_start = &bad;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(histogram, limits, options));
    ExpectCertified(certified, histogram, limits, options);
    EXPECT_LE(certified.packs, FirstFitDecreasingPacks(histogram, limits));
    if (HasFailure()) return;
  }
}

// Graphs come and go, limits change: patterns are used as far as they are any good.
TEST(PlanOptimizerWarmStartTest, OfAnotherHistogramOrOtherLimits) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan earlier,
                            OptimizePlan(histogram, limits, StepsOf(100'000)));
    SizeHistogram changed(histogram.num_components());
    bool new_graph = false;
    for (size_t row = 0; row < histogram.num_distinct(); ++row) {
      const uint64_t kind = random.Below(8);
      uint64_t count = histogram.count(row);
      if (kind == 0) continue;
      if (kind == 1) count = random.Between(1, 2 * count);
      ASSERT_THAT(changed.Add(histogram.tuple(row), count), IsOk());
      if (kind == 2) new_graph = true;
    }
    if (new_graph) {
      ASSERT_THAT(changed.Add(std::vector<uint32_t>(changed.num_components(), 1)), IsOk());
    }
    std::vector<uint64_t> capacities(limits.capacities().begin(), limits.capacities().end());
    for (size_t k = 0; k < capacities.size(); ++k) {
      if (random.Below(3) != 0 || capacities[k] == kUnlimited) continue;
      const uint64_t least = k < changed.num_components() ? changed.maximum(k) : 1;
      capacities[k] = std::max<uint64_t>(random.Between(least, 2 * capacities[k]), 1);
    }
    const Limits other = LimitsOf(std::move(capacities));
    OptimizerOptions options = StepsOf(random.Below(300'000));
    options.warm_start = &earlier.plan;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified, OptimizePlan(changed, other, options));
    ExpectCertified(certified, changed, other, options);
    if (HasFailure()) return;
  }
}

// Half of the graphs are new: what is left of the patterns still saves work.
TEST(PlanOptimizerWarmStartTest, MethodIsNamed) {
  SizeHistogram histogram(1);
  for (const uint32_t size : {6, 3, 1}) ASSERT_THAT(histogram.Add({{size}}, 10), IsOk());
  const Limits limits = LimitsOf({10, kUnlimited});
  PackingPlan best = ItemsOf(histogram).empty_plan;
  best.patterns = {{{{0, 1}, {1, 1}, {2, 1}}, 10}};
  OptimizerOptions options = StepsOf(0);
  options.warm_start = &best;
  PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified, OptimizePlan(histogram, limits, options));
  EXPECT_EQ(certified.method, PlanMethod::kWarmStart);
  EXPECT_EQ(certified.plan.patterns, best.patterns);
  EXPECT_TRUE(certified.optimal());
}

// Typed as a plan, but none: what is of no use is ignored.
TEST(PlanOptimizerWarmStartTest, MalformedPlansAreIgnored) {
  const SizeHistogram histogram = HistogramOf(1, {{{1}, uint64_t{1} << 34}, {{6}, 9}, {{4}, 9}});
  constexpr uint64_t kCapacity = uint64_t{1} << 33;
  const Limits limits = LimitsOf({kCapacity, kUnlimited});
  constexpr uint32_t kHalf = uint32_t{1} << 31;
  const std::pair<std::string, PackingPlan> plans[] = {
      {"nothing", {}},
      {"other components", {2, {1, 4, 6, 7}, {{{{0, 1}}, 5}, {{{1, 2}}, 1}}}},
      {"no components", {0, {}, {{{{0, 3}}, 5}}}},
      {"tuples that there are not", {1, {2, 3}, {{{{0, 1}, {1, 1}}, 5}}}},
      {"no such tuple number", {1, {1, 4}, {{{{2, 1}}, 5}, {{{UINT32_MAX, 1}}, 5}}}},
      {"no tuples", {1, {}, {{{{0, 1}}, 5}}}},
      {"no copies", {1, {1, 4, 6}, {{{{0, 0}}, 5}, {{{0, 0}, {1, 1}}, 5}}}},
      {"no repeats", {1, {1, 4, 6}, {{{{0, 1}}, 0}}}},
      {"no entries", {1, {1, 4, 6}, {{{}, 5}}}},
      {"far too many repeats", {1, {1, 4, 6}, {{{{1, 1}}, UINT64_MAX}, {{{1, 2}}, UINT64_MAX}}}},
      {"repeated tuples", {1, {1, 4, 6}, {{{{1, 1}, {1, 1}, {2, 1}, {1, 2}}, 2}}}},
      {"the same tuple under two numbers", {1, {4, 4, 6}, {{{{0, 1}, {1, 1}}, 2}}}},
      {"tuples in disorder", {1, {6, 1, 4}, {{{{0, 1}, {2, 1}}, 2}}}},
      {"patterns that do not fit", {1, {1, 4, 6}, {{{{0, UINT32_MAX}, {2, UINT32_MAX}}, 1}}}},
      {"2^32 copies in two entries", {1, {1, 4, 6}, {{{{0, kHalf}, {0, kHalf}}, 1}}}},
      {"more than 2^32 copies in two entries",
       {1, {1, 4, 6}, {{{{0, UINT32_MAX}, {0, UINT32_MAX}}, 1}}}}};
  for (const auto& [name, plan] : plans) {
    SCOPED_TRACE(name);
    for (const uint64_t steps : {0, 200'000}) {
      OptimizerOptions options = StepsOf(steps);
      options.warm_start = &plan;
      PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                              OptimizePlan(histogram, limits, options));
      ExpectCertified(certified, histogram, limits, options);
      EXPECT_NE(PlanReceipt(histogram, limits, options),
                PlanReceipt(histogram, limits, StepsOf(steps)));
    }
  }
}

TEST(PlanOptimizerWarmStartTest, RandomNonsenseIsIgnored) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_distinct = 8});
    PackingPlan plan = ItemsOf(histogram).empty_plan;
    if (random.Below(4) == 0) plan.num_components = random.Below(4);
    for (uint32_t& size : plan.tuples) {
      if (random.Below(8) == 0) size = static_cast<uint32_t>(random.Below(20));
    }
    if (random.Below(4) == 0) plan.tuples.resize(random.Below(plan.tuples.size() + 1));
    const auto small = [&random](uint64_t bound) {
      return random.Below(12) == 0 ? static_cast<uint32_t>(random.Next())
                                   : static_cast<uint32_t>(random.Below(bound));
    };
    for (uint64_t p = random.Below(6); p != 0; --p) {
      Pattern pattern;
      for (uint64_t e = random.Below(5); e != 0; --e)
        pattern.entries.push_back({small(9), small(4)});
      pattern.repeats = random.Below(9) == 0 ? random.Next() : random.Below(20);
      plan.patterns.push_back(std::move(pattern));
    }
    OptimizerOptions options = StepsOf(random.Below(30'000));
    options.warm_start = &plan;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(histogram, limits, options));
    ExpectCertified(certified, histogram, limits, options);
    if (HasFailure()) return;
  }
}

// --- Receipts.

TEST(PlanReceiptTest, EqualForEqualArguments) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    SizeHistogram backwards(histogram.num_components());
    for (size_t row = histogram.num_distinct(); row-- > 0;) {
      ASSERT_THAT(backwards.Add(histogram.tuple(row), histogram.count(row) + 1), IsOk());
      ASSERT_THAT(backwards.Remove(histogram.tuple(row), 1), IsOk());
    }
    const std::string receipt = PlanReceipt(histogram, limits, {});
    EXPECT_THAT(receipt, MatchesRegex("v[0-9]+-[0-9a-f]{32}-[A-Za-z0-9_-]+"));
    EXPECT_EQ(PlanReceipt(backwards, limits, {}), receipt);
    // What does not change the plan does not change its receipt.
    OptimizerOptions options;
    options.vector_level = VectorLevel::kPlain;
    options.is_cancelled = [] { return false; };
    EXPECT_EQ(PlanReceipt(histogram, limits, options), receipt);
  }
}

// Nothing that can change the plan is left out.
TEST(PlanReceiptTest, DifferentForDifferentArguments) {
  std::vector<std::string> receipts;
  const SizeHistogram histogram = HistogramOf(2, {{{1, 2}, 3}, {{4, 5}, 6}});
  const Limits limits = LimitsOf({10, 20, 30});
  receipts.push_back(PlanReceipt(histogram, limits, {}));
  for (const SizeHistogram& other :
       {SizeHistogram(2), SizeHistogram(0), HistogramOf(2, {{{1, 2}, 3}, {{4, 5}, 7}}),
        HistogramOf(2, {{{1, 2}, 3}, {{5, 4}, 6}}), HistogramOf(2, {{{1, 2}, 6}, {{4, 5}, 3}}),
        HistogramOf(2, {{{1, 2}, 3}}), HistogramOf(3, {{{1, 2, 0}, 3}, {{4, 5, 0}, 6}}),
        HistogramOf(1, {{{1}, 2}, {{3}, 4}, {{5}, 6}}), HistogramOf(5, {{{1, 2, 3, 4, 5}, 6}})}) {
    receipts.push_back(PlanReceipt(other, limits, {}));
  }
  for (const std::vector<uint64_t>& capacities : std::vector<std::vector<uint64_t>>{
           {10, 20, 31}, {20, 10, 30}, {10, 20, kUnlimited}, {kUnlimited, 20, 30}}) {
    receipts.push_back(PlanReceipt(histogram, LimitsOf(capacities), {}));
  }
  for (const uint64_t steps : {0, 1, 1000}) {
    receipts.push_back(PlanReceipt(histogram, limits, StepsOf(steps)));
  }
  OptimizerOptions options;
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, UINT64_MAX}) {
    options.seed = seed;
    receipts.push_back(PlanReceipt(histogram, limits, options));
  }
  options.seed = 0;
  const PackingPlan warm_starts[] = {{},
                                     {2, {}, {}},
                                     {2, {1, 2, 4, 5}, {}},
                                     {4, {1, 2, 4, 5}, {}},
                                     {2, {1, 2, 4, 5}, {{{{0, 1}, {1, 2}}, 3}}},
                                     {1, {1, 2, 4, 5}, {{{{0, 1}, {1, 2}}, 3}}},
                                     {2, {1, 2, 4, 5}, {{{{0, 1}, {1, 2}}, 4}}},
                                     {2, {1, 2, 4, 5}, {{{{0, 1}, {1, 1}}, 3}}},
                                     {2, {1, 2, 4, 5}, {{{{1, 2}, {0, 1}}, 3}}},
                                     {2, {1, 2, 4, 5}, {{{{0, 1}}, 3}, {{{1, 2}}, 3}}},
                                     {2, {1, 2, 4, 5}, {{{{1, 2}}, 3}, {{{0, 1}}, 3}}},
                                     {2, {1, 2, 4, 6}, {{{{0, 1}, {1, 2}}, 3}}}};
  for (const PackingPlan& warm_start : warm_starts) {
    options.warm_start = &warm_start;
    receipts.push_back(PlanReceipt(histogram, limits, options));
  }
  const std::set<std::string> distinct(receipts.begin(), receipts.end());
  EXPECT_EQ(distinct.size(), receipts.size());
}

TEST(PlanReceiptTest, SaysWhatThePlanWasMadeOf) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    OptimizerOptions options = StepsOf(random.Next());
    options.seed = random.Next();
    const std::string receipt = PlanReceipt(histogram, limits, options);
    PH_ASSERT_OK_AND_ASSIGN(const ReceiptTerms terms, ReadReceipt(receipt));
    EXPECT_EQ(terms.version, kPlannerVersion);
    EXPECT_EQ(terms.steps, options.steps);
    EXPECT_EQ(terms.seed, options.seed);
    EXPECT_FALSE(terms.has_warm_start);
    EXPECT_EQ(LimitsOf(terms.capacities), limits);
    EXPECT_THAT(CheckReceipt(receipt, terms, histogram, limits, options), IsOk());

    SizeHistogram other = histogram;
    ASSERT_THAT(other.Add(SizeTuple(limits.num_components(), 1)), IsOk());
    EXPECT_THAT(CheckReceipt(receipt, terms, other, limits, options),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("other sizes")));
    const PackingPlan warm;
    options.warm_start = &warm;
    EXPECT_THAT(CheckReceipt(receipt, terms, histogram, limits, options),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("did not start")));
    const std::string started = PlanReceipt(histogram, limits, options);
    PH_ASSERT_OK_AND_ASSIGN(const ReceiptTerms of_started, ReadReceipt(started));
    EXPECT_TRUE(of_started.has_warm_start);
    const PackingPlan another = {1, {7}, {}};
    options.warm_start = &another;
    EXPECT_THAT(CheckReceipt(started, of_started, histogram, limits, options),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("than this")));
  }
}

TEST(PlanReceiptTest, OtherTextsAreRefused) {
  const SizeHistogram histogram = HistogramOf(2, {{{1, 2}, 3}});
  const Limits limits = LimitsOf({10, 20, kUnlimited});
  const std::string receipt = PlanReceipt(histogram, limits, {});
  for (size_t length = 0; length < receipt.size(); ++length) {
    const auto terms = ReadReceipt(receipt.substr(0, length));
    // Only some limits may be cut off without a trace in the form; the hash finds that.
    if (terms.ok()) {
      EXPECT_THAT(CheckReceipt(receipt.substr(0, length), *terms, histogram, limits, {}),
                  StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
    }
  }
  EXPECT_THAT(ReadReceipt(absl::StrCat(receipt, "+", receipt)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one plan")));
  EXPECT_THAT(ReadReceipt("online-3"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one plan")));
  EXPECT_THAT(ReadReceipt("v3-000102030405060708090a0b0c0d0e0f"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("version 3"),
                             HasSubstr(absl::StrCat("version ", kPlannerVersion)))));
}

TEST(PlanMethodNameTest, Names) {
  EXPECT_EQ(PlanMethodName(PlanMethod::kFirstFitDecreasing), "first-fit decreasing");
  EXPECT_EQ(PlanMethodName(PlanMethod::kMixing), "mixing");
  EXPECT_EQ(PlanMethodName(PlanMethod::kColumnGeneration), "column generation");
  EXPECT_EQ(PlanMethodName(PlanMethod::kImprovement), "improvement");
  EXPECT_EQ(PlanMethodName(PlanMethod::kWarmStart), "warm start");
}

// --- Real data: proved optimal with default options, whatever the seed.

struct RealWorld {
  std::string name;
  std::vector<uint64_t> capacities;
  uint64_t packs;
};

class PlanOptimizerRealDataTest : public testing::TestWithParam<RealWorld> {};

TEST_P(PlanOptimizerRealDataTest, IsProvedOptimal) {
  const RealWorld& world = GetParam();
  const auto histogram = ReadHistogram(world.name);
  if (!histogram) GTEST_SKIP() << "no hist/" << world.name << ".csv in " << SharedData();
  const Limits limits = LimitsOf(world.capacities);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    OptimizerOptions options;
    options.seed = seed;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(*histogram, limits, options));
    ExpectCertified(certified, *histogram, limits, options);
    EXPECT_EQ(certified.packs, world.packs);
    EXPECT_TRUE(certified.optimal());
  }
}

// Figures of Krell et al.'s data sets; the optima are proved by their bounds.
INSTANTIATE_TEST_SUITE_P(
    PaperAndOthers, PlanOptimizerRealDataTest,
    testing::Values(RealWorld{"molhiv_train", {222, 502, 256}, 3744},
                    RealWorld{"molhiv_train", {512, 1097, 256}, 1624},
                    RealWorld{"molpcba_train", {313, 636, 256}, 30529},
                    RealWorld{"molpcba_train", {512, 1105, 256}, 17588},
                    RealWorld{"pcqm4mv2_train_heatmap", {30, 62, 256}, 1599732},
                    RealWorld{"pcqm4mv2_train_heatmap", {20, 54, 256}, 3126625},
                    RealWorld{"pcqm4mv2_trainvalid_heatmap", {51, 118, 256}, 969671},
                    RealWorld{"qm9_h", {58, 120, 256}, 41566},
                    RealWorld{"pyast_functions", {189054, 189053, 256}, 1516},
                    RealWorld{"pyast_functions", {189054, 189053, kUnlimited}, 195},
                    RealWorld{"ppa_standin_ego", {300, 23804, 256}, 66602}),
    [](const testing::TestParamInfo<RealWorld>& test) {
      return test.param.name + "_" + std::to_string(test.index);
    });

// As hard as any for speed: each level makes the same plan of it.
TEST(PlanOptimizerTest, EachLevelMakesTheSamePlanOfRealData) {
  const auto histogram = ReadHistogram("pyast_functions");
  if (!histogram) GTEST_SKIP() << "no hist/pyast_functions.csv in " << SharedData();
  const Limits limits = LimitsOf({189054, 189053, 256});
  OptimizerOptions options;
  options.vector_level = VectorLevel::kPlain;
  PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan plain, OptimizePlan(*histogram, limits, options));
  for (const VectorLevel level : VectorLevelsHere()) {
    options.vector_level = level;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan again, OptimizePlan(*histogram, limits, options));
    ExpectSame(plain, again);
  }
}

}  // namespace
}  // namespace packhouse
