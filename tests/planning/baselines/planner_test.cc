#include "service/algorithms/planning/baselines/planner.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/baselines/baselines.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SizeSchema SchemaOf(size_t l) {
  std::vector<std::string> names;
  for (size_t k = 0; k < l; ++k) names.emplace_back(k + 1, 'c');
  return SizeSchema::Create(std::move(names)).value();
}

PlanHeuristic Plain(PlanAlgorithm algorithm) {
  return {algorithm, {}, PlacementRule::kBestFit, OpeningRule::kOneGraph};
}

std::vector<PlanHeuristic> AllHeuristics(const Limits& limits) {
  std::vector<PlanHeuristic> heuristics = {Plain(PlanAlgorithm::kOptimized),
                                           Plain(PlanAlgorithm::kFirstFitDecreasing)};
  for (const auto& more :
       {TuplePackingHeuristics(limits), BaselineHeuristics(limits), NotebookHeuristics(limits)}) {
    heuristics.insert(heuristics.end(), more.begin(), more.end());
  }
  return heuristics;
}

std::vector<std::string> NamesOf(const std::vector<PlanHeuristic>& heuristics) {
  std::vector<std::string> names;
  names.reserve(heuristics.size());
  for (const PlanHeuristic& heuristic : heuristics) {
    names.push_back(HeuristicName(heuristic, SizeSchema::NodesAndEdges()));
  }
  return names;
}

TEST(HeuristicsTest, TheDefaultIsTheStrongPlanner) {
  EXPECT_THAT(NamesOf(DefaultHeuristics()), ElementsAre("optimized"));
}

TEST(HeuristicsTest, TuplePackingSuitsTheLimits) {
  std::vector<std::string> expected;
  for (const char* opening : {"", "filling "}) {
    for (const char* placement : {"best-fit ", "first-fit "}) {
      for (const char* priority : {"product", "sum", "max", "min", "nodes", "edges",
                                   "sum weighted 32,16", "max weighted 32,16"}) {
        expected.push_back(absl::StrCat(opening, placement, priority));
      }
    }
  }
  EXPECT_EQ(NamesOf(TuplePackingHeuristics(LimitsOf({100, 200, 8}))), expected);
  // Nothing to weigh where capacities are equal or only one is limited.
  EXPECT_THAT(TuplePackingHeuristics(LimitsOf({100, 100, 8})), SizeIs(2 * 2 * 6));
  EXPECT_THAT(TuplePackingHeuristics(LimitsOf({kUnlimited, 100, 8})), SizeIs(2 * 2 * 5));
  EXPECT_THAT(TuplePackingHeuristics(LimitsOf({kUnlimited, kUnlimited, 8})), SizeIs(2 * 2 * 4));
}

TEST(HeuristicsTest, BaselinesAndTheNotebook) {
  EXPECT_THAT(NamesOf(BaselineHeuristics(LimitsOf({100, 200, 8}))),
              ElementsAre("no packing", "nodes alone", "edges alone"));
  EXPECT_THAT(NamesOf(BaselineHeuristics(LimitsOf({kUnlimited, 200, 8}))),
              ElementsAre("no packing", "edges alone"));
  EXPECT_THAT(NamesOf(NotebookHeuristics(LimitsOf({100, 200, 8}))),
              ElementsAre("notebook product", "notebook sum", "notebook max", "notebook min",
                          "notebook nodes", "notebook edges"));
  EXPECT_THAT(NotebookHeuristics(LimitsOf({kUnlimited, 200, 8})), IsEmpty());
}

// Every heuristic that is offered for some limits works with them.
TEST(HeuristicsTest, AllOfThemRun) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    std::vector<PlanHeuristic> heuristics = AllHeuristics(limits);
    ComparisonOptions options;
    options.optimizer.steps = 100'000;
    PH_ASSERT_OK_AND_ASSIGN(
        const PlanComparison comparison,
        ComparePlans(histogram, limits, SchemaOf(limits.num_components()), heuristics, options));
    ASSERT_THAT(comparison.outcomes, SizeIs(heuristics.size()));
    uint64_t fewest = UINT64_MAX;
    size_t best = 0;
    for (size_t i = 0; i < heuristics.size(); ++i) {
      const PlanOutcome& outcome = comparison.outcomes[i];
      EXPECT_EQ(outcome.heuristic, heuristics[i]);
      EXPECT_TRUE(outcome.finished);
      EXPECT_EQ(outcome.keeps_limits, heuristics[i].algorithm != PlanAlgorithm::kSingleComponent);
      if (outcome.keeps_limits && outcome.quality.packs < fewest) {
        fewest = outcome.quality.packs;
        best = i;
      }
    }
    EXPECT_EQ(comparison.best, best);
    EXPECT_EQ(comparison.best_plan.num_packs(), fewest);
    EXPECT_THAT(VerifyPlan(comparison.best_plan, histogram, limits), IsOk());
    if (HasFailure()) return;
  }
}

class ComparePlansTest : public testing::Test {
 protected:
  ComparePlansTest() {
    for (const uint32_t nodes : {9, 7, 5, 4, 3, 2}) {
      EXPECT_THAT(histogram_.Add({{nodes, 2 * nodes}}, nodes), IsOk());
    }
  }

  absl::StatusOr<PlanComparison> Compare(const std::vector<PlanHeuristic>& heuristics,
                                         const ComparisonOptions& options = {}) const {
    return ComparePlans(histogram_, limits_, SizeSchema::NodesAndEdges(), heuristics, options);
  }

  // With a budget for each heuristic but the optimizer.
  absl::StatusOr<PlanComparison> CompareWithin(const std::vector<PlanHeuristic>& heuristics,
                                               uint64_t steps) const {
    ComparisonOptions options;
    options.heuristic_steps = steps;
    return Compare(heuristics, options);
  }

  SizeHistogram histogram_{2};
  Limits limits_ = LimitsOf({12, 24, kUnlimited});
};

TEST_F(ComparePlansTest, AListWithoutAnythingThatKeepsTheLimitsIsInvalid) {
  for (const auto& heuristics :
       {std::vector<PlanHeuristic>{}, std::vector<PlanHeuristic>{{PlanAlgorithm::kSingleComponent,
                                                                  {PriorityKind::kComponent, 0, {}},
                                                                  PlacementRule::kBestFit,
                                                                  OpeningRule::kOneGraph}}}) {
    EXPECT_THAT(Compare(heuristics),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "plan: no heuristic that keeps all limits is among those to try"));
  }
}

TEST_F(ComparePlansTest, AGraphThatDoesNotFitIsOutOfRange) {
  limits_ = LimitsOf({8, kUnlimited, kUnlimited});
  EXPECT_THAT(Compare(TuplePackingHeuristics(limits_)),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "9 graphs exceed the limits; the largest has size (9, 18): nodes 9 > 8"));
}

TEST_F(ComparePlansTest, AHeuristicThatDoesNotSuitIsInvalid) {
  EXPECT_THAT(Compare({{PlanAlgorithm::kTuplePacking,
                        {PriorityKind::kSum, 0, {1}},
                        PlacementRule::kBestFit,
                        OpeningRule::kOneGraph}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 weights")));
  EXPECT_THAT(
      Compare({{PlanAlgorithm::kNoPacking, {}, PlacementRule::kBestFit, OpeningRule::kOneGraph},
               {PlanAlgorithm::kSingleComponent,
                {PriorityKind::kComponent, 2, {}},
                PlacementRule::kBestFit,
                OpeningRule::kOneGraph}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no component number 2")));
}

TEST_F(ComparePlansTest, TheEarlierOfEqualsIsBest) {
  const PlanHeuristic by_sum = {PlanAlgorithm::kTuplePacking,
                                {PriorityKind::kSum, 0, {}},
                                PlacementRule::kBestFit,
                                OpeningRule::kOneGraph};
  const PlanHeuristic none = {
      PlanAlgorithm::kNoPacking, {}, PlacementRule::kBestFit, OpeningRule::kOneGraph};
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison comparison, Compare({none, by_sum, by_sum, none}));
  EXPECT_EQ(comparison.best, 1);
}

TEST_F(ComparePlansTest, WithoutEnoughStepsNothingFinishes) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT(CompareWithin(TuplePackingHeuristics(limits_), 1),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         "plan: none of 32 heuristics finished within 1 steps on 6 distinct "
                         "sizes"));
  }
}

// One that finishes is enough; the others are told apart.
TEST_F(ComparePlansTest, UnfinishedHeuristicsAreMarked) {
  std::vector<PlanHeuristic> heuristics = TuplePackingHeuristics(limits_);
  heuristics.push_back(
      {PlanAlgorithm::kNoPacking, {}, PlacementRule::kBestFit, OpeningRule::kOneGraph});
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison comparison, CompareWithin(heuristics, 1));
  EXPECT_EQ(comparison.best, heuristics.size() - 1);
  for (size_t i = 0; i < heuristics.size(); ++i) {
    EXPECT_EQ(comparison.outcomes[i].finished, i == heuristics.size() - 1);
    EXPECT_EQ(comparison.outcomes[i].heuristic, heuristics[i]);
  }
}

// Each heuristic has its own budget: the number of heuristics does not matter.
TEST_F(ComparePlansTest, BudgetsAreNotShared) {
  const PlanHeuristic by_sum = {PlanAlgorithm::kTuplePacking,
                                {PriorityKind::kSum, 0, {}},
                                PlacementRule::kBestFit,
                                OpeningRule::kOneGraph};
  WorkBudget ample;
  ASSERT_THAT(PlanByTuplePacking(histogram_, limits_, by_sum.priority, by_sum.placement, ample),
              IsOk());
  const uint64_t used = WorkBudget::kDefaultSteps - ample.remaining();
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison comparison,
                          CompareWithin(std::vector<PlanHeuristic>(10, by_sum), used));
  for (const PlanOutcome& outcome : comparison.outcomes) EXPECT_TRUE(outcome.finished);
}

TEST_F(ComparePlansTest, ProgressIsToldAndMayStopIt) {
  std::vector<size_t> finished;
  ComparisonOptions options;
  options.finished = [&](size_t i) { finished.push_back(i); };
  options.optimizer.is_cancelled = [&] { return finished.size() == 2; };
  EXPECT_THAT(Compare(AllHeuristics(limits_), options),
              StatusIs(absl::StatusCode::kCancelled, "plan: given up by the caller"));
  EXPECT_THAT(finished, ElementsAre(0, 1));
}

// The optimizer's budget is its own, and first-fit decreasing needs none.
TEST_F(ComparePlansTest, TheOptimizerFinishesWithoutAnySteps) {
  ComparisonOptions options;
  options.heuristic_steps = 1;
  options.optimizer.steps = 0;
  const std::vector<PlanHeuristic> heuristics = AllHeuristics(limits_);
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison comparison, Compare(heuristics, options));
  EXPECT_EQ(comparison.best, 0);
  for (size_t i = 0; i < heuristics.size(); ++i) {
    const PlanAlgorithm algorithm = heuristics[i].algorithm;
    EXPECT_EQ(comparison.outcomes[i].finished, algorithm == PlanAlgorithm::kOptimized ||
                                                   algorithm == PlanAlgorithm::kNoPacking ||
                                                   algorithm == PlanAlgorithm::kFirstFitDecreasing);
  }
}

// Whatever is tried beside it, the strong planner's plan is the one that it makes alone.
TEST(CertificateTest, TheOptimizersPlanIsItsOwn) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const SizeSchema schema = SchemaOf(limits.num_components());
    ComparisonOptions options;
    options.optimizer.steps = 100'000;
    options.optimizer.seed = seed;
    PH_ASSERT_OK_AND_ASSIGN(const CertifiedPlan certified,
                            OptimizePlan(histogram, limits, options.optimizer));
    PH_ASSERT_OK_AND_ASSIGN(const PlanComparison alone,
                            ComparePlans(histogram, limits, schema, DefaultHeuristics(), options));
    EXPECT_EQ(alone.best_plan.patterns, certified.plan.patterns);
    PH_ASSERT_OK_AND_ASSIGN(
        const PlanComparison beside,
        ComparePlans(histogram, limits, schema, AllHeuristics(limits), options));
    for (const PlanComparison* comparison : {&alone, &beside}) {
      const PlanOutcome& outcome = comparison->outcomes[0];
      EXPECT_EQ(outcome.quality.packs, certified.packs);
      EXPECT_EQ(outcome.winner, certified.method);
      EXPECT_EQ(outcome.steps, certified.steps);
      EXPECT_EQ(outcome.receipt, PlanReceipt(histogram, limits, options.optimizer));
      EXPECT_GE(outcome.bound.packs, certified.bound.packs);
    }
    if (HasFailure()) return;
  }
}

// One bound holds for all rows of a comparison: no plan that keeps the limits is below it, and the
// gap and the proof of being optimal are held against it.
TEST(CertificateTest, AllOutcomesShareTheBestBound) {
  int ignored_limits = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    ComparisonOptions options;
    options.optimizer.steps = 100'000;
    PH_ASSERT_OK_AND_ASSIGN(const PlanComparison comparison,
                            ComparePlans(histogram, limits, SchemaOf(limits.num_components()),
                                         AllHeuristics(limits), options));
    const LowerBound& bound = comparison.outcomes[0].bound;
    EXPECT_GE(bound.packs, ComputeVolumeBound(histogram, limits).packs);
    for (const PlanOutcome& outcome : comparison.outcomes) {
      EXPECT_EQ(outcome.bound.packs, bound.packs);
      EXPECT_EQ(outcome.bound.kind, bound.kind);
      EXPECT_EQ(outcome.quality.lower_bound, bound.packs);
      if (bound.packs != 0) {
        EXPECT_DOUBLE_EQ(
            outcome.quality.gap,
            static_cast<double>(outcome.quality.packs) / static_cast<double>(bound.packs) - 1.0);
      }
      if (outcome.keeps_limits) {
        EXPECT_GE(outcome.quality.packs, bound.packs);
        EXPECT_EQ(outcome.optimal, outcome.quality.packs == bound.packs);
      } else {
        EXPECT_FALSE(outcome.optimal);
        ignored_limits += outcome.quality.packs < bound.packs;
      }
      const bool is_optimizer = outcome.heuristic.algorithm == PlanAlgorithm::kOptimized;
      EXPECT_EQ(outcome.winner.has_value(), is_optimizer);
      EXPECT_EQ(outcome.receipt.empty(), !is_optimizer);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(ignored_limits, 0) << "not one baseline shows what the bound does not hold for";
}

TEST(WorkBudgetTest, AsksNowAndThenWhetherTheCallerGaveUp) {
  int asked = 0;
  WorkBudget budget(WorkBudget::kDefaultSteps, [&asked] { return ++asked == 3; });
  uint64_t steps = 0;
  while (budget.Spend(100)) steps += 100;
  EXPECT_EQ(asked, 3);
  EXPECT_LT(steps, WorkBudget::kDefaultSteps / 100);
  EXPECT_THAT(budget.Refusal(), StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
  WorkBudget small(99);
  EXPECT_FALSE(small.Spend(100));
  EXPECT_THAT(small.Refusal(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("used up")));
}

TEST_F(ComparePlansTest, AnEmptyHistogramHasAnEmptyPlan) {
  histogram_ = SizeHistogram(2);
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison comparison,
                          Compare(TuplePackingHeuristics(limits_)));
  EXPECT_EQ(comparison.best, 0);
  EXPECT_THAT(comparison.best_plan.patterns, IsEmpty());
  EXPECT_EQ(comparison.outcomes[0].quality.packs, 0);
}

TEST_F(ComparePlansTest, SameArgumentsSamePlan) {
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison a, Compare(TuplePackingHeuristics(limits_)));
  PH_ASSERT_OK_AND_ASSIGN(const PlanComparison b, Compare(TuplePackingHeuristics(limits_)));
  EXPECT_EQ(a.best, b.best);
  EXPECT_EQ(a.best_plan.tuples, b.best_plan.tuples);
  EXPECT_EQ(a.best_plan.patterns, b.best_plan.patterns);
}

TEST(BaselinesTest, NoPackingIsOneGraphAPack) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingPlan plan = PlanWithoutPacking(histogram);
    EXPECT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
    EXPECT_EQ(plan.num_packs(), histogram.num_graphs());
    EXPECT_THAT(plan.patterns, SizeIs(histogram.num_distinct()));
  }
}

// All graphs are packed, and the one component and the number of graphs are kept.
TEST(BaselinesTest, ASingleComponentIsPackedBlindly) {
  bool exceeded = false;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const size_t l = limits.num_components();
    for (size_t k = 0; k < l; ++k) {
      if (!limits.has_limit(k)) continue;
      WorkBudget budget;
      PH_ASSERT_OK_AND_ASSIGN(const PackingPlan plan,
                              PlanBySingleComponent(histogram, limits, k, budget));
      std::vector<uint64_t> kept(l + 1, kUnlimited);
      kept[k] = limits.capacity(k);
      kept[l] = limits.graphs();
      EXPECT_THAT(VerifyPlan(plan, histogram, LimitsOf(kept)), IsOk());
      exceeded |= !VerifyPlan(plan, histogram, limits).ok();
    }
    if (HasFailure()) return;
  }
  EXPECT_TRUE(exceeded) << "not one plan shows why this is only a baseline";
}

// What differs where there is no limit does not make another size.
TEST(BaselinesTest, SizesThatDifferWithoutALimitAreOne) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SizeHistogram few(2);
    SizeHistogram many(3);
    for (int i = 0; i < 200; ++i) {
      const auto nodes = static_cast<uint32_t>(random.Between(1, 30));
      const auto edges = static_cast<uint32_t>(random.Between(0, 60));
      ASSERT_THAT(few.Add({nodes, edges}), IsOk());
      ASSERT_THAT(many.Add({nodes, edges, static_cast<uint32_t>(random.Below(1000))}), IsOk());
    }
    const Limits of_few = LimitsOf({40, 80, kUnlimited});
    const Limits of_many = LimitsOf({40, 80, kUnlimited, kUnlimited});
    const std::vector<PlanHeuristic> heuristics = TuplePackingHeuristics(of_few);
    PH_ASSERT_OK_AND_ASSIGN(const PlanComparison a,
                            ComparePlans(few, of_few, SizeSchema::NodesAndEdges(), heuristics));
    PH_ASSERT_OK_AND_ASSIGN(const SizeSchema schema,
                            SizeSchema::Create({"nodes", "edges", "tokens"}));
    std::vector<PlanHeuristic> with_tokens = heuristics;
    for (PlanHeuristic& heuristic : with_tokens) {
      if (!heuristic.priority.weights.empty()) heuristic.priority.weights.push_back(1);
    }
    PH_ASSERT_OK_AND_ASSIGN(const PlanComparison b,
                            ComparePlans(many, of_many, schema, with_tokens));
    for (size_t i = 0; i < heuristics.size(); ++i) {
      EXPECT_EQ(a.outcomes[i].quality.packs, b.outcomes[i].quality.packs)
          << HeuristicName(heuristics[i], SizeSchema::NodesAndEdges());
    }
    if (HasFailure()) return;
  }
}

TEST(BaselinesTest, ASingleComponentMustExistAndHaveALimit) {
  WorkBudget budget;
  const Limits limits = LimitsOf({10, kUnlimited, 5});
  EXPECT_THAT(PlanBySingleComponent(SizeHistogram(2), limits, 2, budget),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no component number 2")));
  EXPECT_THAT(PlanBySingleComponent(SizeHistogram(2), limits, 1, budget),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has no limit")));
}

}  // namespace
}  // namespace packhouse
