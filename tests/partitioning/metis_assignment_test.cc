#include "service/wings/partition/cutting/metis_assignment.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/symmetric_graph.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

// An engine that answers what it is told, and keeps what it was asked.
class ScriptedEngine final : public AssignmentEngine {
 public:
  using Answer = std::function<absl::StatusOr<std::vector<uint32_t>>(const EngineProblem&,
                                                                     const EngineAttempt&)>;
  explicit ScriptedEngine(Answer answer) : answer_(std::move(answer)) {}

  absl::StatusOr<std::unique_ptr<EngineArray>> NewArray() override { return NewHeapArray(); }
  std::vector<absl::StatusOr<std::vector<uint32_t>>> Run(
      const EngineProblem& problem, absl::Span<const EngineAttempt> attempts,
      const EngineLimits& limits, const std::function<bool()>& /*cancelled*/) override {
    std::vector<absl::StatusOr<std::vector<uint32_t>>> results;
    for (const EngineAttempt& attempt : attempts) {
      asked.push_back(attempt);
      constraints.push_back(problem.num_constraints);
      memory.push_back(limits.memory_bytes);
      results.push_back(answer_(problem, attempt));
    }
    return results;
  }

  std::vector<EngineAttempt> asked;
  std::vector<uint32_t> constraints;
  std::vector<uint64_t> memory;

 private:
  const Answer answer_;
};

std::vector<uint32_t> Blocks(const EngineProblem& problem) {
  std::vector<uint32_t> part(problem.num_nodes);
  for (uint32_t node = 0; node < problem.num_nodes; ++node) {
    part[node] = static_cast<uint32_t>(uint64_t{node} * problem.num_parts / problem.num_nodes);
  }
  return part;
}

class MetisAssignmentTest : public testing::Test {
 protected:
  MetisAssignmentTest()
      : source_(OneSetGraph(60, RingOfCliques(12, 5))),
        graph_(*HomogeneousGraph::Create(source_.get())) {
    options_.num_parts = 4;
    options_.method = PartMethod::kMetis;
  }

  const std::unique_ptr<const SourceGraph> source_;
  const HomogeneousGraph graph_;
  PartitionOptions options_;
};

TEST_F(MetisAssignmentTest, OneCallIsEnoughIfItIsInBalance) {
  ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_EQ(engine.asked.size(), 1U);
  EXPECT_EQ(assignment.cut_edges, 4U);
  EXPECT_TRUE(assignment.notes.empty());
}

TEST_F(MetisAssignmentTest, EmptyPartsAreFilled) {
  ScriptedEngine engine(
      [](const auto& problem, const auto&) { return std::vector<uint32_t>(problem.num_nodes, 1); });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_TRUE(assignment.balance[0].met);
  EXPECT_THAT(assignment.nodes_of_part, testing::Each(testing::Gt(0)));
}

// Two constraints that no parts can meet at once: nodes 0 to 3 bear all of class 1's degree.
TEST_F(MetisAssignmentTest, AConstraintThatCannotBeMetIsNamedAndGivenUp) {
  Pairs edges;
  for (uint32_t v = 8; v < 60; ++v) edges.emplace_back(v, v % 4);
  for (uint32_t v = 1; v < 4; ++v) edges.emplace_back(v, 0);
  const auto source = OneSetGraph(60, edges);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  options_.balance_edges = true;
  NodeClasses classes{0, std::vector<uint16_t>(60, 1), 2};
  classes.class_of[0] = classes.class_of[1] = classes.class_of[2] = 0;
  options_.classes = {classes};
  ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph, options_, &engine));
  ASSERT_EQ(assignment.balance.size(), 4U);
  EXPECT_THAT(assignment.balance[0].dropped, HasSubstr("only 3 nodes have any, for 4 parts"));
  EXPECT_THAT(assignment.balance[2].dropped, HasSubstr("only 3 nodes"));
  EXPECT_THAT(assignment.balance[3].dropped, HasSubstr("only 1 nodes"));
  EXPECT_EQ(assignment.balance[1].dropped, "");
  EXPECT_TRUE(assignment.balance[1].met);
  EXPECT_THAT(engine.constraints, testing::Each(1U));
}

// With an imbalance of 1, 4 heavy nodes of different degrees cannot be spread evenly.
TEST_F(MetisAssignmentTest, OtherSeedsAndSchemesAreTriedFirst) {
  Pairs edges;
  for (uint32_t v = 0; v < 8; ++v) {
    for (uint32_t i = 0; i < (v < 4 ? 10U : 7U); ++i) edges.emplace_back(20 + i, v);
  }
  const auto source = OneSetGraph(60, edges);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  options_.num_parts = 3;
  options_.imbalance = 1.0;
  options_.balance_edges = true;
  options_.classes = {{0, std::vector<uint16_t>(60), 2}};
  options_.classes[0].class_of[59] = options_.classes[0].class_of[58] = 1;
  options_.classes[0].class_of[57] = 1;
  ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph, options_, &engine));
  // 68 in-edges in units of 10 and 7: no three sums are at most 23.
  EXPECT_THAT(assignment.balance[2].dropped, HasSubstr("no attempt met it"));
  EXPECT_TRUE(assignment.balance[0].met);
  ASSERT_GE(engine.asked.size(), 4U);
  EXPECT_EQ(engine.asked[1].seed, engine.asked[0].seed + 1);
  EXPECT_EQ(engine.asked[2].scheme, PartScheme::kRecursive);
  EXPECT_THAT(assignment.notes, Contains(HasSubstr("called again")));
}

TEST_F(MetisAssignmentTest, OfCutAndVolumeTheBetterVolumeStays) {
  options_.objective = PartObjective::kVolume;
  ScriptedEngine engine([](const auto& problem, const auto& attempt) {
    std::vector<uint32_t> part = Blocks(problem);
    if (attempt.objective == PartObjective::kVolume) std::swap(part[0], part[59]);
    return part;
  });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_EQ(engine.asked.size(), 2U);
  EXPECT_EQ(assignment.volume, 8U);
}

TEST_F(MetisAssignmentTest, AFailureIsToldOrGoneAround) {
  ScriptedEngine engine([](const auto&, const auto&) {
    return absl::InternalError("METIS's process was ended by signal 9");
  });
  EXPECT_EQ(AssignParts(graph_, options_, &engine).status().code(), absl::StatusCode::kInternal);
  options_.method = PartMethod::kAutomatic;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_EQ(assignment.method, PartMethod::kStreaming);
  EXPECT_THAT(assignment.reason, HasSubstr("ended by signal 9"));
}

TEST_F(MetisAssignmentTest, MemoryDecides) {
  ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
  options_.memory_bytes = 1000;
  const absl::Status refused = AssignParts(graph_, options_, &engine).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("bound of 1000"));
  options_.method = PartMethod::kAutomatic;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_EQ(assignment.method, PartMethod::kStreaming);
  EXPECT_TRUE(engine.asked.empty());
}

}  // namespace
}  // namespace packhouse
