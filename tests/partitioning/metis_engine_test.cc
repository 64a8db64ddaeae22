#include "service/wings/partition/engines/metis_engine.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/symmetric_graph.h"
#include "service/wings/partition/engines/metis_exchange.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

Pairs RandomPairs(uint32_t nodes, uint64_t edges, uint64_t seed) {
  SeededRandom random(seed);
  Pairs pairs;
  for (uint64_t e = 0; e < edges; ++e) {
    pairs.emplace_back(static_cast<uint32_t>(random.Below(nodes)),
                       static_cast<uint32_t>(random.Below(nodes)));
  }
  return pairs;
}

class MetisEngineTest : public testing::Test {
 protected:
  void SetUp() override {
    PH_ASSERT_OK_AND_ASSIGN(engine_, MakeMetisEngine(PACKHOUSE_METIS));
    options_.method = PartMethod::kMetis;
    options_.num_parts = 4;
  }
  // A program of a shell that stands where METIS should be.
  std::string Program(const std::string& script) {
    const std::string path =
        (std::filesystem::path(testing::TempDir()) / ("metis_stand_in_" + std::to_string(getpid())))
            .string();
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  std::unique_ptr<AssignmentEngine> engine_;
  PartitionOptions options_;
};

TEST_F(MetisEngineTest, FindsTheCliquesTwiceTheSame) {
  const auto source = OneSetGraph(400, RingOfCliques(40, 10));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  for (const PartScheme scheme : {PartScheme::kKWay, PartScheme::kRecursive}) {
    for (const PartObjective objective : {PartObjective::kCut, PartObjective::kVolume}) {
      options_.scheme = scheme;
      options_.objective = objective;
      PH_ASSERT_OK_AND_ASSIGN(const Assignment first, AssignParts(graph, options_, engine_.get()));
      PH_ASSERT_OK_AND_ASSIGN(const Assignment again, AssignParts(graph, options_, engine_.get()));
      EXPECT_EQ(first.method, PartMethod::kMetis);
      EXPECT_EQ(first.part, again.part);
      EXPECT_EQ(first.cut_edges, 4U);
      EXPECT_TRUE(first.balance[0].met);
    }
  }
}

// Of a ring's edges two are light: they are cut, whatever else would be as even.
TEST_F(MetisEngineTest, LightEdgesAreCut) {
  constexpr uint32_t kNodes = 40;
  Pairs ring;
  std::vector<uint64_t> weights;
  for (uint32_t node = 0; node < kNodes; ++node) {
    ring.emplace_back(node, (node + 1) % kNodes);
    weights.push_back(node % (kNodes / 2) == 7 ? 1 : 1000);
  }
  const auto source = OneSetGraph(kNodes, ring);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  options_.num_parts = 2;
  options_.weights.edges = {weights};
  for (const PartScheme scheme : {PartScheme::kKWay, PartScheme::kRecursive}) {
    options_.scheme = scheme;
    PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment,
                            AssignParts(graph, options_, engine_.get()));
    for (uint32_t node = 0; node < kNodes; ++node) {
      const bool is_cut = assignment.part[node] != assignment.part[(node + 1) % kNodes];
      EXPECT_EQ(is_cut, weights[node] == 1) << node;
    }
  }
}

// A random graph that is to be cut into eight parts.
struct RandomProblem {
  explicit RandomProblem(AssignmentEngine* engine)
      : symmetric(Symmetrize(graph, engine, {}).value()) {}

  EngineProblem problem() const {
    return {.num_nodes = kNodes,
            .offsets = symmetric.offsets,
            .neighbours = symmetric.neighbours.get(),
            .weights = symmetric.weights.get(),
            .node_weights = ones,
            .num_parts = 8,
            .node_sizes = {},
            .imbalance = imbalance};
  }

  static constexpr uint32_t kNodes = 3000;
  const std::unique_ptr<const SourceGraph> source =
      OneSetGraph(kNodes, RandomPairs(kNodes, 12000, 1));
  const HomogeneousGraph graph = HomogeneousGraph::Create(source.get()).value();
  const SymmetricGraph symmetric;
  const std::vector<uint32_t> ones = std::vector<uint32_t>(kNodes, 1);
  const std::vector<double> imbalance = {1.03};
};

// METIS bisects for the cut alone, and says so: by that it is seen what it was asked for.
TEST_F(MetisEngineTest, IsAskedForTheSchemeAndTheObjective) {
  const RandomProblem random(engine_.get());
  const auto parts = engine_->Run(random.problem(),
                                  {{PartScheme::kKWay, PartObjective::kCut, 1},
                                   {PartScheme::kKWay, PartObjective::kVolume, 1},
                                   {PartScheme::kRecursive, PartObjective::kCut, 1},
                                   {PartScheme::kRecursive, PartObjective::kVolume, 1}},
                                  {}, nullptr);
  ASSERT_EQ(parts.size(), 4U);
  for (size_t i = 0; i < 3; ++i) ASSERT_THAT(parts[i], IsOk());
  EXPECT_NE(*parts[0], *parts[1]);
  EXPECT_NE(*parts[0], *parts[2]);
  EXPECT_THAT(parts[3], StatusIs(absl::StatusCode::kInternal, HasSubstr("objective type")));
}

// Several calls at one time do not disturb each other.
TEST_F(MetisEngineTest, CallsSideBySideGiveWhatEachGivesAlone) {
  const RandomProblem random(engine_.get());
  const EngineProblem problem = random.problem();
  std::vector<EngineAttempt> attempts;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    attempts.push_back(
        {seed % 2 == 0 ? PartScheme::kRecursive : PartScheme::kKWay, PartObjective::kCut, seed});
  }
  EngineLimits limits;
  limits.parallel = 6;
  const auto together = engine_->Run(problem, attempts, limits, nullptr);
  limits.parallel = 1;
  const auto alone = engine_->Run(problem, attempts, limits, nullptr);
  for (size_t i = 0; i < attempts.size(); ++i) {
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<uint32_t> one, alone[i]);
    EXPECT_THAT(together[i], IsOkAndHolds(one));
  }
}

TEST_F(MetisEngineTest, TheBestQualityIsNoWorseAndRepeats) {
  for (const bool balance_edges : {false, true}) {
    const auto source = OneSetGraph(1000, RandomPairs(1000, 4000, 5));
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    options_.balance_edges = balance_edges;
    options_.quality = PartQuality::kDefault;
    PH_ASSERT_OK_AND_ASSIGN(const Assignment plain, AssignParts(graph, options_, engine_.get()));
    options_.quality = PartQuality::kBest;
    PH_ASSERT_OK_AND_ASSIGN(const Assignment best, AssignParts(graph, options_, engine_.get()));
    PH_ASSERT_OK_AND_ASSIGN(const Assignment again, AssignParts(graph, options_, engine_.get()));
    EXPECT_EQ(best.part, again.part);
    EXPECT_LE(best.cut_edges, plain.cut_edges);
    for (const BalanceReport& report : best.balance) EXPECT_TRUE(report.met) << report.name;
  }
}

TEST_F(MetisEngineTest, EverythingOddIsTaken) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    options_.num_parts = static_cast<uint32_t>(2 + seed % 6);
    options_.balance_edges = seed % 2 == 0;
    options_.quality = seed % 4 == 0 ? PartQuality::kBest : PartQuality::kDefault;
    PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment,
                            AssignParts(graph, options_, engine_.get()));
    for (const uint64_t nodes : assignment.nodes_of_part) {
      EXPECT_TRUE(nodes > 0 || graph.num_nodes() < options_.num_parts);
    }
    for (const BalanceReport& report : assignment.balance) {
      EXPECT_TRUE(report.met || !report.dropped.empty() || graph.num_nodes() <= options_.num_parts)
          << report.name << " " << report.largest << " of " << report.total;
    }
  }
}

// Of a call with one constraint and without sizes.
uint64_t SharedBytes(const EngineProblem& problem) {
  MetisCall call;
  call.num_nodes = static_cast<int32_t>(problem.num_nodes);
  return call.bytes() + problem.offsets.back() * (problem.weights != nullptr ? 8 : 4);
}

TEST_F(MetisEngineTest, MemoryBeyondTheBoundIsAnError) {
  const auto source = OneSetGraph(20000, RandomPairs(20000, 200000, 2));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const SymmetricGraph symmetric, Symmetrize(graph, engine_.get(), {}));
  const std::vector<uint32_t> ones(20000, 1);
  const std::vector<double> imbalance = {1.03};
  const EngineProblem problem{.num_nodes = 20000,
                              .offsets = symmetric.offsets,
                              .neighbours = symmetric.neighbours.get(),
                              .weights = symmetric.weights.get(),
                              .node_weights = ones,
                              .num_parts = 4,
                              .node_sizes = {},
                              .imbalance = imbalance};
  for (const uint64_t megabytes : {1, 4, 6}) {
    EngineLimits limits;
    limits.memory_bytes = megabytes << 20;
    const auto results = engine_->Run(problem, {EngineAttempt{}}, limits, nullptr);
    EXPECT_EQ(results[0].status(),
              absl::ResourceExhaustedError(
                  megabytes == 1
                      ? absl::StrCat("the arrays for METIS take ", SharedBytes(problem),
                                     " bytes, and its memory is bounded to 1048576")
                      : absl::StrCat("METIS ran out of memory, of ", megabytes << 20, " bytes")));
  }
}

TEST_F(MetisEngineTest, TimeAndCancellationEndTheProcess) {
  const auto source = OneSetGraph(60, RingOfCliques(12, 5));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const auto slow, MakeMetisEngine(Program("exec sleep 1000")));
  options_.time_limit = absl::Milliseconds(20);
  EXPECT_EQ(AssignParts(graph, options_, slow.get()).status(),
            absl::DeadlineExceededError("METIS did not end within 20ms"));
  options_.time_limit = absl::InfiniteDuration();
  int looks = 5;
  EXPECT_EQ(AssignParts(graph, options_, slow.get(), {[&looks] { return --looks <= 0; }, nullptr})
                .status()
                .code(),
            absl::StatusCode::kCancelled);
}

TEST_F(MetisEngineTest, EndsOfTheProcessAreTold) {
  const auto source = OneSetGraph(60, RingOfCliques(12, 5));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  const auto error = [&](const std::string& script) {
    const auto engine = *MakeMetisEngine(Program(script));
    const absl::Status status = AssignParts(graph, options_, engine.get()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return std::string(status.message());
  };
  EXPECT_EQ(error("kill -9 $$"), "METIS's process was ended by signal 9 (Killed)");
  EXPECT_EQ(error("echo; echo so; kill -8 $$"),
            "METIS's process was ended by signal 8 (Floating point exception); it printed 'so'");
  const std::string ended = "METIS's process ended with status ";
  EXPECT_EQ(error("echo 'out of luck' >&2; exit 3"),
            ended + "3 and no result; it printed 'out of luck'");
  EXPECT_EQ(error("exit 0"), ended + "0 and no result");
  // The program itself, without what it is given.
  const std::string metis = PACKHOUSE_METIS;
  EXPECT_EQ(error("exec 3<&-; exec " + metis),
            ended +
                "2 and no result; it printed 'packhouse-metis is started by packhoused, which "
                "passes it a graph'");
  EXPECT_EQ(error("exec 3</dev/null; exec " + metis),
            ended +
                "2 and no result; it printed 'packhouse-metis is started by packhoused, which "
                "passes it a graph'");
  EXPECT_EQ(error("exec 4<&-; exec " + metis),
            ended + "2 and no result; it printed 'the arrays are shorter than the call says'");
  EXPECT_EQ(error(metis + "; exit $?"),
            ended + "2 and no result; it printed 'the service has ended'");
  EXPECT_EQ(MakeMetisEngine("/nonexistent/metis").status(),
            absl::FailedPreconditionError("METIS's program /nonexistent/metis cannot be executed"));
}

// Numbers stay where they are as an array grows.
TEST_F(MetisEngineTest, ArraysKeepTheirNumbers) {
  for (const bool shared : {false, true}) {
    std::unique_ptr<EngineArray> array = NewHeapArray();
    if (shared) {
      PH_ASSERT_OK_AND_ASSIGN(array, engine_->NewArray());
    }
    for (const uint64_t capacity : {3, 5000}) {
      ASSERT_THAT(array->Reserve(capacity), IsOk());
      if (capacity == 3) std::iota(array->data(), array->data() + 3, 7);
      EXPECT_THAT(std::vector<uint32_t>(array->data(), array->data() + 3),
                  testing::ElementsAre(7, 8, 9));
    }
  }
}

// METIS is killed after a random time: either it had ended, or there is an error; never half a
// result.
TEST_F(MetisEngineTest, KilledAtRandomTimesThereIsAllOrAnError) {
  const auto source = OneSetGraph(20000, RandomPairs(20000, 100000, 3));
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  options_.num_parts = 8;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment whole, AssignParts(graph, options_, engine_.get()));
  SeededRandom random(9);
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    // A shell whose child kills it, and which then becomes METIS.
    const std::string delay = "0." + std::to_string(100 + random.Below(200)).substr(0, 2);
    const auto engine = *MakeMetisEngine(
        Program("(sleep " + delay + "; kill -9 $$) & exec " + std::string(PACKHOUSE_METIS)));
    const absl::StatusOr<Assignment> result = AssignParts(graph, options_, engine.get());
    if (result.ok()) {
      EXPECT_EQ(result->part, whole.part);
    } else {
      ++killed;
      EXPECT_THAT(result.status().message(), HasSubstr("ended by signal 9"));
    }
  }
  RecordProperty("killed", killed);
}

}  // namespace
}  // namespace packhouse
