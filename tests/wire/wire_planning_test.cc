#include "service/server/wire/wire_planning.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_heuristics.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Message>
Message PlanText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

constexpr char kLimits[] = R"(limits { capacities { component: 'nodes' rows: 100 }
                                       capacities { component: 'edges' rows: 200 } } )";

absl::StatusOr<PlanTask> TaskOf(const std::string& text) {
  return PlanTaskFromWire(PlanText<v1::PlanRequest>(kLimits + text),
                          {SizeSchema::NodesAndEdges(), SizeHistogram(2)}, 65536);
}

std::vector<std::string> NamesOf(const PlanTask& task) {
  std::vector<std::string> names;
  for (const PlanHeuristic& heuristic : task.heuristics) {
    names.push_back(HeuristicName(heuristic, SizeSchema::NodesAndEdges()));
  }
  return names;
}

TEST(PlanTaskFromWireTest, UnsetIsTheStrongPlannerWithItsDefaults) {
  PH_ASSERT_OK_AND_ASSIGN(const PlanTask task, TaskOf(""));
  EXPECT_THAT(task.limits.capacities(), ElementsAre(100, 200, kUnlimited));
  EXPECT_THAT(NamesOf(task), ElementsAre("optimized"));
  const ComparisonOptions options = task.options();
  EXPECT_EQ(options.optimizer.steps, 100'000'000U);
  EXPECT_EQ(options.optimizer.seed, 0U);
  EXPECT_EQ(options.optimizer.warm_start, nullptr);
}

TEST(PlanTaskFromWireTest, BudgetSeedAndWarmStartReachTheOptimizer) {
  PH_ASSERT_OK_AND_ASSIGN(const PlanTask task,
                          TaskOf(R"(budget_steps: 12345 seed: 18446744073709551615
                warm_start { tuples: "\1\0\0\0\2\0\0\0"
                             patterns { entries { copies: 3 } repeats: 4 } })"));
  const ComparisonOptions options = task.options();
  EXPECT_EQ(options.optimizer.steps, 12345U);
  EXPECT_EQ(options.optimizer.seed, UINT64_MAX);
  ASSERT_NE(options.optimizer.warm_start, nullptr);
  EXPECT_THAT(options.optimizer.warm_start->tuples, ElementsAre(1, 2));
  EXPECT_THAT(options.optimizer.warm_start->patterns, ElementsAre(Pattern{{{0, 3}}, 4}));
}

TEST(PlanTaskFromWireTest, TheBudgetIsBounded) {
  PH_ASSERT_OK_AND_ASSIGN(const PlanTask most, TaskOf("budget_steps: 100000000000"));
  EXPECT_EQ(most.budget_steps, kMaxBudgetSteps);
  EXPECT_THAT(TaskOf("budget_steps: 100000000001"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "budget_steps: 100000000001, at most 100000000000"));
}

TEST(PlanTaskFromWireTest, ExtrasAreAppended) {
  PH_ASSERT_OK_AND_ASSIGN(const PlanTask task,
                          TaskOf("include_tuple_packing: true include_notebook: true "
                                 "include_baselines: true"));
  const std::vector<std::string> names = NamesOf(task);
  // 8 priorities in two placements with two openings, 6 of the notebook's, 3 baselines.
  ASSERT_EQ(names.size(), 2U + 2 * 2 * 8 + 6 + 3);
  EXPECT_EQ(names[0], "optimized");
  EXPECT_EQ(names[1], "first-fit decreasing");
  EXPECT_EQ(names[2], "best-fit product");
  EXPECT_EQ(names[34], "notebook product");
  EXPECT_EQ(names[40], "no packing");
}

TEST(PlanTaskFromWireTest, WhatHasNoParametersRunsOnce) {
  PH_ASSERT_OK_AND_ASSIGN(
      const PlanTask task,
      TaskOf("heuristics { algorithm: PLAN_ALGORITHM_FIRST_FIT_DECREASING } "
             "heuristics { algorithm: PLAN_ALGORITHM_OPTIMIZED } include_tuple_packing: true"));
  const std::vector<std::string> names = NamesOf(task);
  ASSERT_EQ(names.size(), 2U + 2 * 2 * 8);
  EXPECT_EQ(names[0], "first-fit decreasing");
  EXPECT_EQ(names[1], "optimized");
  for (const char* algorithm :
       {"PLAN_ALGORITHM_OPTIMIZED", "PLAN_ALGORITHM_FIRST_FIT_DECREASING"}) {
    const std::string once = absl::StrCat("heuristics { algorithm: ", algorithm, " } ");
    EXPECT_THAT(TaskOf(once + once),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("heuristics: ", algorithm, " is listed twice")));
  }
}

TEST(PlanTaskFromWireTest, UnknownAlgorithmsAndTooManyAreInvalid) {
  EXPECT_THAT(
      TaskOf("heuristics { algorithm: 7 }"),
      StatusIs(absl::StatusCode::kInvalidArgument, "heuristic: algorithm: unknown value 7"));
  std::string many;
  for (int i = 0; i <= kMaxHeuristics; ++i) {
    many += "heuristics { priority { kind: PRIORITY_KIND_SUM } } ";
  }
  EXPECT_THAT(TaskOf(many),
              StatusIs(absl::StatusCode::kInvalidArgument, "heuristics: 257, at most 256"));
}

TEST(CheckPlannedSizesTest, NamesTheBound) {
  EXPECT_THAT(CheckPlannedSizes(uint64_t{1} << 20), IsOk());
  EXPECT_THAT(CheckPlannedSizes((uint64_t{1} << 20) + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("1048577 size tuples, at most 1048576")));
}

TEST(PlanFromWireTest, RoundTrips) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    PackingPlan plan;
    plan.num_components = random.Below(4);
    if (plan.num_components != 0) {
      plan.tuples.resize(plan.num_components * random.Between(1, 9));
      for (uint32_t& count : plan.tuples) count = static_cast<uint32_t>(random.Below(1000));
    }
    for (uint64_t p = random.Below(9); p != 0; --p) {
      Pattern& pattern = plan.patterns.emplace_back();
      pattern.repeats = random.Between(1, uint64_t{1} << 50);
      for (uint64_t e = random.Between(1, 5); e != 0; --e) {
        pattern.entries.push_back({static_cast<uint32_t>(random.Below(plan.num_tuples())),
                                   static_cast<uint32_t>(random.Between(1, 100))});
      }
    }
    v1::PackingPlan wire;
    PlanToWire(plan, wire);
    PH_ASSERT_OK_AND_ASSIGN(const PackingPlan back,
                            PlanFromWire(wire, plan.num_components, "warm_start"));
    EXPECT_EQ(back.num_components, plan.num_components);
    EXPECT_EQ(back.tuples, plan.tuples);
    EXPECT_EQ(back.patterns, plan.patterns);
  }
}

void ExpectRefused(const std::string& text, size_t num_components, const std::string& message) {
  EXPECT_THAT(PlanFromWire(PlanText<v1::PackingPlan>(text), num_components, "warm_start"),
              StatusIs(absl::StatusCode::kInvalidArgument, message))
      << text;
}

TEST(PlanFromWireTest, NamesWhatIsMalformed) {
  // (1, 2), (4294967295, 0).
  const std::string tuples = R"(tuples: "\1\0\0\0\2\0\0\0\xff\xff\xff\xff\0\0\0\0" )";
  ExpectRefused(tuples, 3, "warm_start.tuples: 16 bytes, a tuple of 3 components takes 12");
  ExpectRefused(R"(tuples: "abc")", 2,
                "warm_start.tuples: 3 bytes, a tuple of 2 components takes 8");
  ExpectRefused(R"(tuples: "abcd")", 0,
                "warm_start.tuples: 4 bytes, a tuple of 0 components takes 0");
  ExpectRefused(tuples +
                    "patterns { entries { copies: 1 } repeats: 1 } "
                    "patterns { entries { copies: 1 } entries { tuple: 2 copies: 1 } "
                    "repeats: 1 }",
                2, "warm_start.patterns[1].entries[1].tuple: 2, there are 2 tuples");
  ExpectRefused("patterns { entries { copies: 1 } repeats: 1 }", 2,
                "warm_start.patterns[0].entries[0].tuple: 0, there are 0 tuples");
  ExpectRefused(tuples + "patterns { entries { tuple: 1 } repeats: 1 }", 2,
                "warm_start.patterns[0].entries[0].copies: 0, must be at least 1");
  ExpectRefused(tuples + "patterns { entries { copies: 1 } }", 2,
                "warm_start.patterns[0].repeats: 0, must be at least 1");
  ExpectRefused(tuples + "patterns { repeats: 1 }", 2, "warm_start.patterns[0].entries: none");
  ExpectRefused(tuples + "patterns { entries { copies: 2 } repeats: 9223372036854775808 }", 2,
                "warm_start.patterns[0].repeats: 9223372036854775808: the graphs of tuple 0 "
                "exceed 2^64 - 1");
  const std::string half = "patterns { entries { copies: 1 } repeats: 9223372036854775808 } ";
  ExpectRefused(tuples + half + half, 2,
                "warm_start.patterns[1].repeats: 9223372036854775808: the graphs of tuple 0 "
                "exceed 2^64 - 1");
  const std::string largest = "entries { tuple: 1 copies: 4294967295 } ";
  ExpectRefused(tuples + "patterns { repeats: 1 " + largest + largest + "}", 2,
                "warm_start.patterns[0]: the rows of component number 0 exceed 2^64 - 1");
}

TEST(PlanFromWireTest, TheNumberOfTuplesIsBounded) {
  v1::PackingPlan wire;
  wire.set_tuples(std::string(4 * ((size_t{1} << 20) + 1), '\0'));
  EXPECT_THAT(
      PlanFromWire(wire, 1, "warm_start"),
      StatusIs(absl::StatusCode::kInvalidArgument, "warm_start.tuples: 1048577, at most 1048576"));
}

TEST(SummaryToWireTest, CarriesTheCertificate) {
  PlanOutcome outcome;
  outcome.heuristic.algorithm = PlanAlgorithm::kOptimized;
  outcome.finished = true;
  outcome.keeps_limits = true;
  outcome.quality.packs = 11;
  outcome.quality.gap = 0.1;
  outcome.bound = {10, LowerBoundKind::kLiftedVolume, 1};
  outcome.winner = PlanMethod::kMixing;
  outcome.steps = 77;
  outcome.receipt = "v1-receipt";
  v1::PlanSummary wire;
  SummaryToWire(outcome, SizeSchema::NodesAndEdges(), absl::Milliseconds(1500), wire);
  EXPECT_EQ(wire.name(), "optimized");
  EXPECT_EQ(wire.heuristic().algorithm(), v1::PLAN_ALGORITHM_OPTIMIZED);
  EXPECT_FALSE(wire.heuristic().has_priority());
  EXPECT_EQ(wire.packs(), 11U);
  EXPECT_EQ(wire.lower_bound(), 10U);
  EXPECT_EQ(wire.lower_bound_name(), "lifted volume of edges");
  EXPECT_EQ(wire.lower_bound_kind(), v1::LOWER_BOUND_KIND_LIFTED_VOLUME);
  EXPECT_EQ(wire.gap(), 0.1);
  EXPECT_FALSE(wire.optimal());
  EXPECT_EQ(wire.winner(), std::string(PlanMethodName(PlanMethod::kMixing)));
  EXPECT_EQ(wire.steps(), 77U);
  EXPECT_EQ(wire.receipt(), "v1-receipt");
  EXPECT_EQ(wire.elapsed().nanos(), 500'000'000);

  outcome.bound = {11, LowerBoundKind::kLinearProgram, 0};
  outcome.optimal = true;
  SummaryToWire(outcome, SizeSchema::NodesAndEdges(), absl::ZeroDuration(), wire);
  EXPECT_EQ(wire.lower_bound_name(), "linear program");
  EXPECT_EQ(wire.lower_bound_kind(), v1::LOWER_BOUND_KIND_LINEAR_PROGRAM);
  EXPECT_TRUE(wire.optimal());

  outcome.bound = {11, LowerBoundKind::kVolume, 0};
  SummaryToWire(outcome, SizeSchema::NodesAndEdges(), absl::ZeroDuration(), wire);
  EXPECT_EQ(wire.lower_bound_name(), "volume of nodes");
  EXPECT_EQ(wire.lower_bound_kind(), v1::LOWER_BOUND_KIND_VOLUME);

  outcome.finished = false;
  SummaryToWire(outcome, SizeSchema::NodesAndEdges(), absl::ZeroDuration(), wire);
  EXPECT_TRUE(wire.unfinished());
  EXPECT_EQ(wire.packs(), 0U);
  EXPECT_THAT(wire.receipt(), IsEmpty());
}

}  // namespace
}  // namespace packhouse
