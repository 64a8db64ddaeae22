#include "service/wings/partition/cutting/metis_assignment.h"

#include <algorithm>
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
#include "tests/partitioning/assignment_fingerprint.h"
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

  absl::StatusOr<std::unique_ptr<EngineArray>> NewArray() override {
    if (arrays_left-- == 0) return absl::ResourceExhaustedError("no room for an array");
    return NewHeapArray();
  }
  std::vector<absl::StatusOr<std::vector<uint32_t>>> Run(
      const EngineProblem& problem, absl::Span<const EngineAttempt> attempts,
      const EngineLimits& limits, const std::function<bool()>& /*cancelled*/) override {
    std::vector<absl::StatusOr<std::vector<uint32_t>>> results;
    for (const EngineAttempt& attempt : attempts) {
      asked.push_back(attempt);
      constraints.push_back(problem.num_constraints);
      memory.push_back(limits.memory_bytes);
      parallel.push_back(limits.parallel);
      results.push_back(answer_(problem, attempt));
    }
    return results;
  }

  int arrays_left = 2;
  std::vector<EngineAttempt> asked;
  std::vector<uint32_t> constraints;
  std::vector<uint64_t> memory;
  std::vector<uint32_t> parallel;

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

// What METIS is asked of a graph that brings weights along.
// Of several answers the one is taken that has the least to send, by the nodes' sizes.
TEST(MetisRatingTest, CountsTheVolumeBySizes) {
  constexpr uint32_t kNodes = 60;
  Pairs ring;
  for (uint32_t node = 0; node < kNodes; ++node) ring.emplace_back(node, (node + 1) % kNodes);
  const auto source = OneSetGraph(kNodes, ring);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PartitionOptions options;
  options.num_parts = 2;
  options.method = PartMethod::kMetis;
  options.objective = PartObjective::kVolume;
  options.quality = PartQuality::kBest;
  options.weights.sizes.assign(kNodes, 100);
  uint32_t num_calls = 0;
  // The ring in two halves, each time at other places, of which the last are where nodes are small.
  ScriptedEngine engine([&](const EngineProblem& problem, const auto&) {
    ++num_calls;
    std::vector<uint32_t> part(problem.num_nodes);
    for (uint32_t node = 0; node < kNodes; ++node) {
      part[node] = (node + kNodes - num_calls) % kNodes < kNodes / 2 ? 0 : 1;
    }
    return part;
  });
  ASSERT_THAT(AssignParts(graph, options, &engine), IsOk());
  ASSERT_GT(num_calls, 1U);
  const uint32_t first = num_calls;
  for (const uint32_t cut : {first, first + kNodes / 2}) {
    options.weights.sizes[cut % kNodes] = options.weights.sizes[(cut + kNodes - 1) % kNodes] = 1;
  }
  num_calls = 0;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph, options, &engine));
  uint64_t volume = 0;
  for (uint32_t node = 0; node < kNodes; ++node) {
    const bool is_sent = assignment.part[node] != assignment.part[(node + 1) % kNodes] ||
                         assignment.part[node] != assignment.part[(node + kNodes - 1) % kNodes];
    if (is_sent) volume += options.weights.sizes[node];
  }
  EXPECT_EQ(volume, 4U);
}

TEST_F(MetisAssignmentTest, SizesAndWeightsOfNodesReachMetis) {
  options_.objective = PartObjective::kVolume;
  options_.weights.nodes = {{"light", std::vector<uint64_t>(60, 1)}, {"heavy", {}}};
  for (uint64_t node = 0; node < 60; ++node) {
    options_.weights.nodes[0].of_node[node] = node % 3;
    options_.weights.nodes[1].of_node.push_back(100 + node);
    options_.weights.sizes.push_back(node % 7);
  }
  int num_calls = 0;
  ScriptedEngine engine([&](const EngineProblem& problem, const auto&) {
    ++num_calls;
    EXPECT_EQ(problem.num_constraints, 2U);
    EXPECT_EQ(problem.node_weights.size(), 120U);
    EXPECT_EQ(problem.node_sizes.size(), 60U);
    EXPECT_EQ(problem.imbalance.size(), 2U);
    for (uint64_t node = 0; node < problem.num_nodes; ++node) {
      EXPECT_EQ(problem.node_weights[2 * node], node % 3);
      EXPECT_EQ(problem.node_weights[2 * node + 1], 100 + node);
      EXPECT_EQ(problem.node_sizes[node], node % 7);
    }
    return Blocks(problem);
  });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_EQ(num_calls, 2);
  ASSERT_EQ(assignment.balance.size(), 2U);
  EXPECT_EQ(assignment.balance[0].name, "light");
  // Without any, METIS takes each for 1.
  options_.weights = {};
  ScriptedEngine plain([](const EngineProblem& problem, const auto&) {
    EXPECT_TRUE(problem.node_sizes.empty());
    EXPECT_EQ(problem.num_constraints, 1U);
    EXPECT_THAT(problem.node_weights, testing::Each(1U));
    return Blocks(problem);
  });
  EXPECT_THAT(AssignParts(graph_, options_, &plain), IsOk());
}

// METIS adds up in 31 bits: of a part all weights, of a volume one size for each end of an edge.
// What is beyond is divided by no more than it takes, and rounded up, so that nothing but 0 is 0.
TEST_F(MetisAssignmentTest, SizesAndWeightsBeyondMetisAreDividedAndRoundedUp) {
  options_.objective = PartObjective::kVolume;
  const uint64_t entries = 2 * graph_.num_edges();
  for (const int bits : {0, 10, 22, 23, 24, 25, 31, 40, 55}) {
    SCOPED_TRACE(testing::Message() << "bits=" << bits);
    std::vector<uint64_t> large;
    for (uint64_t node = 0; node < 60; ++node) {
      large.push_back(node % 10 == 0 ? node / 30 : (uint64_t{1} << bits) + node * node);
    }
    options_.weights.sizes = large;
    options_.weights.nodes = {{"w", large}};
    const auto expect_divided = [&](absl::Span<const uint32_t> given, uint64_t most) {
      ASSERT_EQ(given.size(), 60U);
      const uint64_t largest = *std::max_element(large.begin(), large.end());
      const uint64_t given_most = *std::max_element(given.begin(), given.end());
      // The power of two by which it was divided.
      uint64_t by = 1;
      while ((largest - 1) / by + 1 > given_most) by *= 2;
      for (size_t node = 0; node < large.size(); ++node) {
        EXPECT_EQ(given[node], large[node] == 0 ? 0 : (large[node] - 1) / by + 1) << node;
      }
      EXPECT_TRUE(by == 1 || given_most >= most / 4) << given_most << " of " << most;
    };
    ScriptedEngine engine([&](const EngineProblem& problem, const auto&) {
      EXPECT_EQ(problem.offsets.back(), entries);
      expect_divided(problem.node_sizes, INT32_MAX / entries);
      expect_divided(problem.node_weights, INT32_MAX / 60);
      uint64_t weight = 0;
      for (const uint32_t of_node : problem.node_weights) weight += of_node;
      EXPECT_LE(weight, INT32_MAX);
      const uint64_t size = *std::max_element(problem.node_sizes.begin(), problem.node_sizes.end());
      EXPECT_LE(size * entries, INT32_MAX);
      return Blocks(problem);
    });
    PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
    const auto is_told = Contains(HasSubstr("sizes of nodes were divided by"));
    if (bits <= 10) {
      EXPECT_THAT(assignment.notes, testing::Not(is_told));
    } else if (bits >= 31) {
      EXPECT_THAT(assignment.notes, is_told);
    }
  }
}

// All that METIS is asked, attempt after attempt, and what becomes of its answers: some are worse
// than others, and some fail.
TEST(MetisQuestionsTest, TheSameArgumentsGiveTheseQuestionsAndParts) {
  Fingerprint fingerprint;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    PartitionOptions options = RandomOptions(graph, seed);
    options.method = seed % 2 == 0 ? PartMethod::kMetis : PartMethod::kAutomatic;
    options.objective = seed % 3 == 1 ? PartObjective::kVolume : PartObjective::kCut;
    options.scheme = seed % 7 == 1 ? PartScheme::kRecursive : PartScheme::kKWay;
    options.quality = seed % 8 == 2 ? PartQuality::kBest : PartQuality::kDefault;
    options.memory_bytes = seed % 4 == 3 ? uint64_t{1} << 31 : 0;
    options.parallel = static_cast<uint32_t>(seed % 4);
    SeededRandom random(seed);
    ScriptedEngine engine([&](const EngineProblem& problem, const EngineAttempt& attempt)
                              -> absl::StatusOr<std::vector<uint32_t>> {
      fingerprint.Add(static_cast<uint64_t>(attempt.scheme));
      fingerprint.Add(static_cast<uint64_t>(attempt.objective));
      fingerprint.Add(attempt.seed);
      fingerprint.AddAll(problem.offsets);
      const uint64_t entries = problem.offsets.back();
      fingerprint.AddAll(absl::MakeConstSpan(problem.neighbours->data(), entries));
      if (problem.weights != nullptr) {
        fingerprint.AddAll(absl::MakeConstSpan(problem.weights->data(), entries));
      }
      fingerprint.AddAll(problem.node_weights);
      fingerprint.AddAll(problem.node_sizes);
      for (const double imbalance : problem.imbalance) fingerprint.AddDouble(imbalance);
      if (random.Below(6) == 0) return absl::InternalError("METIS gave no parts");
      std::vector<uint32_t> part = Blocks(problem);
      for (uint64_t i = random.Below(8); i > 0; --i) {
        part[random.Below(part.size())] = static_cast<uint32_t>(random.Below(problem.num_parts));
      }
      return part;
    });
    const auto tell = [&fingerprint](PartitionPhase phase, double share) {
      fingerprint.Add(static_cast<uint64_t>(phase));
      fingerprint.AddDouble(share);
    };
    const absl::StatusOr<Assignment> made = AssignParts(graph, options, &engine, {nullptr, tell});
    fingerprint.AddAll(engine.constraints);
    fingerprint.AddAll(engine.memory);
    fingerprint.AddAll(engine.parallel);
    if (made.ok()) AddAssignment(*made, fingerprint);
    fingerprint.AddAll(made.status().message());
  }
  EXPECT_EQ(fingerprint.value(), 1243611827275133077U);
}

// Neighbours have one, and their weights where some are joined twice.
TEST_F(MetisAssignmentTest, ArraysThatThereIsNoRoomForAreTold) {
  Pairs edges = RingOfCliques(12, 5);
  edges.push_back(edges[0]);
  const auto source = OneSetGraph(60, edges);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  for (const int arrays : {0, 1, 2}) {
    ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
    engine.arrays_left = arrays;
    EXPECT_EQ(
        AssignParts(graph, options_, &engine).status(),
        arrays == 2 ? absl::OkStatus() : absl::ResourceExhaustedError("no room for an array"));
  }
}

TEST_F(MetisAssignmentTest, WeightsOfEdgesBeyondMetisAreRounded) {
  options_.weights.edges.emplace_back();
  for (uint64_t edge = 0; edge < graph_.num_edges(); ++edge) {
    options_.weights.edges[0].push_back((uint64_t{1} << 30) + edge);
  }
  ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  ASSERT_FALSE(assignment.notes.empty());
  EXPECT_EQ(assignment.notes[0],
            "weights of edges were divided by 256 and rounded up: METIS adds up to 2^31");
}

TEST_F(MetisAssignmentTest, TheBestOfAllCanBeCancelledAtAnyLook) {
  options_.quality = PartQuality::kBest;
  int looks = 0;
  for (;; looks += 1 + looks / 8) {
    ScriptedEngine engine([](const auto& problem, const auto&) { return Blocks(problem); });
    int left = looks;
    const absl::Status status =
        AssignParts(graph_, options_, &engine, {[&left] { return left-- <= 0; }, nullptr}).status();
    if (status.ok()) break;
    EXPECT_EQ(status, absl::CancelledError("partitioning was cancelled"));
  }
  EXPECT_GT(looks, 10);
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

// 20 classes of 3 nodes, for 4 parts: numbers of nodes are kept even then.
TEST_F(MetisAssignmentTest, WithoutAConstraintThatCanBeMetNodesAreBalanced) {
  NodeClasses classes{0, std::vector<uint16_t>(60), 20};
  for (uint16_t node = 0; node < 60; ++node) classes.class_of[node] = node / 3;
  options_.classes = {classes};
  ScriptedEngine engine([this](const EngineProblem& problem, const auto&) {
    EXPECT_THAT(problem.node_weights, testing::Each(1U));
    EXPECT_THAT(problem.imbalance, testing::ElementsAre(options_.imbalance));
    return Blocks(problem);
  });
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph_, options_, &engine));
  EXPECT_FALSE(engine.asked.empty());
  for (const BalanceReport& balance : assignment.balance) {
    EXPECT_THAT(balance.dropped, HasSubstr("only 3 nodes"));
  }
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
