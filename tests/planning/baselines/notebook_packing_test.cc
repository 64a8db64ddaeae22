#include "service/algorithms/planning/baselines/notebook_packing.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/shared_data.h"
#include "tests/support/sizes_csv.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

// "nodes/edges" in percent as the notebook prints them, one per heuristic: product, sum, max, min,
// nodes, edges.
std::vector<std::string> NotebookFigures(const SizeHistogram& histogram, const Limits& limits) {
  std::vector<std::string> figures;
  for (const PlanHeuristic& heuristic : NotebookHeuristics(limits)) {
    WorkBudget budget;
    const absl::StatusOr<PackingPlan> plan =
        PlanByNotebook(histogram, limits, heuristic.priority, budget);
    EXPECT_THAT(plan, IsOk());
    if (!plan.ok()) return {};
    EXPECT_THAT(VerifyPlan(*plan, histogram, limits), IsOk());
    const PlanQuality quality = MeasurePlan(*plan, histogram, limits);
    figures.push_back(absl::StrFormat("%.2f/%.2f",
                                      100 * quality.components[0].efficiency_of_fullest,
                                      100 * quality.components[1].efficiency_of_fullest));
  }
  return figures;
}

// Krell et al. 2022, Table 2, and the companion notebook's output.
TEST(NotebookPackingTest, ReproducesThePublishedFiguresOfMolhiv) {
  const std::optional<SizeHistogram> histogram = ReadHistogram("molhiv_train");
  if (!histogram) GTEST_SKIP() << "no hist/molhiv_train.csv in " << SharedData();
  EXPECT_THAT(NotebookFigures(*histogram, LimitsOf({222, 502, 256})),
              ElementsAre("95.56/90.50", "97.52/92.37", "98.50/93.29", "98.50/93.29", "98.78/93.56",
                          "98.50/93.29"));
}

TEST(NotebookPackingTest, ReproducesThePublishedFiguresOfMolpcba) {
  const std::optional<SizeHistogram> histogram = ReadHistogram("molpcba_train");
  if (!histogram) GTEST_SKIP() << "no hist/molpcba_train.csv in " << SharedData();
  EXPECT_THAT(NotebookFigures(*histogram, LimitsOf({313, 636, 256})),
              ElementsAre("89.59/95.10", "85.35/90.61", "92.58/98.28", "92.58/98.28", "91.51/97.14",
                          "90.64/96.22"));
}

TEST(NotebookPackingTest, EveryPlanPartitionsItsHistogram) {
  int worlds = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random, {.max_components = 4});
    for (const PlanHeuristic& heuristic : NotebookHeuristics(limits)) {
      WorkBudget budget;
      PH_ASSERT_OK_AND_ASSIGN(const PackingPlan plan,
                              PlanByNotebook(histogram, limits, heuristic.priority, budget));
      EXPECT_THAT(VerifyPlan(plan, histogram, limits), IsOk());
      ++worlds;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(worlds, 500);
}

TEST(NotebookPackingTest, MinIsAMaximum) {
  Random random(5);
  const Limits limits = LimitsOf({40, 40, 12});
  for (int world = 0; world < 20; ++world) {
    SizeHistogram histogram(2);
    for (int i = 0; i < 30; ++i) {
      const std::vector<uint32_t> tuple = {static_cast<uint32_t>(random.Below(30)),
                                           static_cast<uint32_t>(random.Below(30))};
      ASSERT_THAT(histogram.Add(tuple, random.Between(1, 20)), IsOk());
    }
    WorkBudget budget;
    PH_ASSERT_OK_AND_ASSIGN(const PackingPlan min,
                            PlanByNotebook(histogram, limits, {PriorityKind::kMin, 0, {}}, budget));
    PH_ASSERT_OK_AND_ASSIGN(const PackingPlan max,
                            PlanByNotebook(histogram, limits, {PriorityKind::kMax, 0, {}}, budget));
    EXPECT_EQ(min.patterns, max.patterns);
  }
}

TEST(NotebookPackingTest, EveryComponentNeedsALimit) {
  WorkBudget budget;
  EXPECT_THAT(PlanByNotebook(SizeHistogram(2), LimitsOf({10, kUnlimited, 5}), {}, budget),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "notebook packing: component number 1 has no limit"));
}

TEST(NotebookPackingTest, RunsOutOfItsBudget) {
  const SizeHistogram histogram = [] {
    SizeHistogram sizes(1);
    for (const uint32_t size : {6, 5, 4, 3}) EXPECT_THAT(sizes.Add({size}, 3), IsOk());
    return sizes;
  }();
  const Limits limits = LimitsOf({10, kUnlimited});
  WorkBudget ample;
  ASSERT_THAT(PlanByNotebook(histogram, limits, {}, ample), IsOk());
  const uint64_t used = WorkBudget::kDefaultSteps - ample.remaining();
  ASSERT_GT(used, 0);
  WorkBudget enough(used);
  EXPECT_THAT(PlanByNotebook(histogram, limits, {}, enough), IsOk());
  WorkBudget too_little(used - 1);
  EXPECT_THAT(PlanByNotebook(histogram, limits, {}, too_little),
              StatusIs(absl::StatusCode::kResourceExhausted, "plan: the work budget is used up"));
}

}  // namespace
}  // namespace packhouse
