#include "service/wings/partition/cutting/assignment.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/graphs/source_graphs/memory_source_graph.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/cutting/node_classes.h"
#include "tests/partitioning/assignment_fingerprint.h"
#include "tests/partitioning/random_source_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AssignmentTest : public testing::Test {
 protected:
  // A ring of 12 cliques of 5 nodes.
  AssignmentTest()
      : source_(OneSetGraph(60, RingOfCliques(12, 5))),
        graph_(*HomogeneousGraph::Create(source_.get())) {}

  absl::StatusOr<Assignment> Assign(const PartitionOptions& options) {
    return AssignParts(graph_, options, nullptr);
  }

  const std::unique_ptr<const SourceGraph> source_;
  const HomogeneousGraph graph_;
};

TEST_F(AssignmentTest, StreamingKeepsMostCliquesWhole) {
  PartitionOptions options;
  options.num_parts = 4;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, Assign(options));
  EXPECT_EQ(assignment.method, PartMethod::kStreaming);
  EXPECT_EQ(assignment.reason, "METIS cannot be used: METIS cannot be called here");
  EXPECT_LE(assignment.cut_edges, 20U);
  ASSERT_EQ(assignment.balance.size(), 1U);
  EXPECT_EQ(assignment.balance[0].name, "nodes");
  EXPECT_TRUE(assignment.balance[0].met);
  EXPECT_EQ(*std::max_element(assignment.nodes_of_part.begin(), assignment.nodes_of_part.end()),
            assignment.balance[0].largest);
}

// A clique of hubs, to which all others have an edge each or none. The hubs and some of their
// followers fill the first part; the order of nodes, in which hubs lie far apart, does not matter.
TEST_F(AssignmentTest, StreamingKeepsHubsTogether) {
  Pairs edges;
  for (uint32_t a = 0; a < 400; a += 20) {
    for (uint32_t b = 0; b < a; b += 20) edges.emplace_back(a, b);
  }
  for (uint32_t follower = 0; follower < 400; ++follower) {
    if (follower % 4 == 1) edges.emplace_back(follower, follower % 20 * 20);
  }
  const auto source = OneSetGraph(400, edges);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PartitionOptions options;
  options.num_parts = 4;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph, options, nullptr));
  for (uint32_t hub = 20; hub < 400; hub += 20) {
    EXPECT_EQ(assignment.part[hub], assignment.part[0]) << hub;
  }
  EXPECT_TRUE(assignment.balance[0].met);
  // Each of the others is one of 20 followers beyond the room.
  EXPECT_LE(assignment.cut_edges, 20U);
}

// The figures are those of the parts, whatever the parts are.
TEST_F(AssignmentTest, FiguresAreThoseOfTheParts) {
  std::vector<uint32_t> part(60);
  for (uint32_t node = 0; node < 60; ++node) part[node] = node / 5 % 2;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, DescribeParts(graph_, {}, part));
  EXPECT_EQ(assignment.cut_edges, 12U);  // Those between cliques.
  EXPECT_EQ(assignment.volume, 24U);
  EXPECT_THAT(assignment.nodes_of_part, ElementsAre(30, 30));
  EXPECT_THAT(assignment.edges_of_part, ElementsAre(66, 66));
  EXPECT_EQ(assignment.balance[0].achieved, 1);
}

TEST_F(AssignmentTest, OnePartAndAPartForEachNodeNeedNoPartitioner) {
  PartitionOptions options;
  options.num_parts = 1;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment one, Assign(options));
  EXPECT_THAT(one.part, Each(0));
  EXPECT_EQ(one.cut_edges, 0U);
  for (const uint32_t parts : {60U, 100U}) {
    options.num_parts = parts;
    PH_ASSERT_OK_AND_ASSIGN(const Assignment all, Assign(options));
    std::vector<uint32_t> expected(60);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all.part, expected);
    EXPECT_EQ(all.cut_edges, 132U);
    EXPECT_EQ(all.notes.size(), parts == 60 ? 0 : 1);
  }
  const auto empty = OneSetGraph(0, {});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph nothing, HomogeneousGraph::Create(empty.get()));
  PH_ASSERT_OK_AND_ASSIGN(const Assignment none, AssignParts(nothing, options, nullptr));
  EXPECT_THAT(none.part, ElementsAre());
  EXPECT_EQ(none.nodes_of_part.size(), 100U);
}

TEST_F(AssignmentTest, TrainersShareTheirMachine) {
  PartitionOptions options;
  options.num_parts = 3;
  options.trainers_per_machine = 2;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, Assign(options));
  ASSERT_EQ(assignment.trainer.size(), 60U);
  for (uint32_t node = 0; node < 60; ++node) {
    EXPECT_LT(assignment.trainer[node], 6U);
    EXPECT_EQ(assignment.trainer[node] / 2, assignment.part[node]);
  }
  EXPECT_EQ(assignment.nodes_of_part.size(), 3U);
}

TEST_F(AssignmentTest, RandomPartsComeFromTheSeed) {
  PartitionOptions options;
  options.method = PartMethod::kRandom;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment first, Assign(options));
  PH_ASSERT_OK_AND_ASSIGN(const Assignment same, Assign(options));
  options.seed = 2;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment other, Assign(options));
  EXPECT_EQ(first.part, same.part);
  EXPECT_NE(first.part, other.part);
}

TEST_F(AssignmentTest, StreamingHeedsTheSeed) {
  PartitionOptions options;
  options.method = PartMethod::kStreaming;
  options.num_parts = 4;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment first, Assign(options));
  PH_ASSERT_OK_AND_ASSIGN(const Assignment same, Assign(options));
  EXPECT_EQ(first.part, same.part);
  std::set<std::vector<uint32_t>> different;
  for (options.seed = 1; options.seed <= 10; ++options.seed) {
    PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, Assign(options));
    EXPECT_LE(assignment.cut_edges, 24U);
    different.insert(assignment.part);
  }
  EXPECT_GT(different.size(), 5U);
}

TEST_F(AssignmentTest, TheSameArgumentsGiveTheseParts) {
  Fingerprint fingerprint;
  const auto assign = [&fingerprint](const HomogeneousGraph& graph,
                                     const PartitionOptions& options) {
    const auto tell = [&fingerprint](PartitionPhase phase, double share) {
      fingerprint.Add(static_cast<uint64_t>(phase));
      fingerprint.AddDouble(share);
    };
    PH_ASSERT_OK_AND_ASSIGN(const Assignment made,
                            AssignParts(graph, options, nullptr, {nullptr, tell}));
    AddAssignment(made, fingerprint);
  };
  for (uint64_t seed = 0; seed < 90; ++seed) {
    const auto source = RandomSourceGraph(seed);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    PartitionOptions options = RandomOptions(graph, seed);
    options.method = seed % 10 == 7 ? PartMethod::kRandom : PartMethod::kAutomatic;
    assign(graph, options);
  }
  // Clusters with hubs among them, of which each stream makes something else.
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SeededRandom random(seed);
    Pairs edges = RingOfCliques(40, static_cast<uint32_t>(4 + seed));
    const uint64_t nodes = 40 * (4 + seed);
    for (uint64_t i = 0; i < nodes * seed; ++i) {
      edges.emplace_back(random.Below(nodes), random.Below(1 + random.Below(nodes)));
    }
    const auto source = OneSetGraph(static_cast<uint32_t>(nodes), edges);
    PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
    PartitionOptions options = RandomOptions(graph, seed);
    options.num_parts = static_cast<uint32_t>(3 + 4 * seed);
    assign(graph, options);
  }
  EXPECT_EQ(fingerprint.value(), 16383472632829935128U);
}

// Where there are as many nodes as parts, no part is empty: whatever the shape and the balance.
TEST_F(AssignmentTest, StreamingLeavesNoPartEmpty) {
  for (uint32_t nodes = 2; nodes <= 40; ++nodes) {
    Pairs path;
    Pairs star;
    for (uint32_t node = 1; node < nodes; ++node) {
      path.emplace_back(node - 1, node);
      star.emplace_back(0, node);
    }
    for (const Pairs& edges : {Pairs(), path, star}) {
      const auto source = OneSetGraph(nodes, edges);
      PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
      PartitionOptions options;
      options.method = PartMethod::kStreaming;
      for (options.num_parts = 2; options.num_parts <= nodes; ++options.num_parts) {
        for (const double imbalance : {1.0, 1.03, 3.0}) {
          options.imbalance = imbalance;
          PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment,
                                  AssignParts(graph, options, nullptr));
          EXPECT_THAT(assignment.nodes_of_part, Each(testing::Gt(0U)))
              << nodes << " nodes, " << edges.size() << " edges, " << options.num_parts;
        }
      }
    }
  }
}

// A report is true of each mask, also of masks that overlap or lie in each other: where all classes
// are met, every part has its share of each mask.
TEST_F(AssignmentTest, OverlappingMasksAreEachSpread) {
  SourceNodeSetSpec set{"n", {}};
  MemoryNodeSet nodes;
  nodes.num_nodes = 600;
  const std::vector<std::pair<uint32_t, uint32_t>> masks = {{0, 300}, {100, 400}, {150, 250}};
  std::vector<absl::string_view> names = {"brand", "type", "inner"};
  for (size_t m = 0; m < masks.size(); ++m) {
    MemoryColumn column;
    for (uint32_t node = 0; node < 600; ++node) {
      column.bytes.push_back(node >= masks[m].first && node < masks[m].second ? 1 : 0);
    }
    set.columns.push_back({std::string(names[m]), DType::kBool, {}, false, false});
    nodes.columns.push_back(std::move(column));
  }
  MemoryEdgeSet edges;
  for (uint32_t node = 1; node < 600; ++node) {
    edges.sources.push_back(node - 1);
    edges.targets.push_back(node);
  }
  const auto source = *MakeMemorySourceGraph(
      *SourceGraphSchema::Create({set}, {{"e", 0, 0, {}, std::nullopt}}), 1, {nodes}, {edges});
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PartitionOptions options;
  options.method = PartMethod::kStreaming;
  options.num_parts = 4;
  options.imbalance = 1.1;
  PH_ASSERT_OK_AND_ASSIGN(const NodeClasses classes, ClassesFromMasks(*source, 0, names));
  options.classes = {classes};
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph, options, nullptr));
  bool all_met = true;
  std::vector<std::string> reported;
  for (const BalanceReport& report : assignment.balance) {
    if (report.total > 0) reported.push_back(report.name);
    all_met &= report.met;
  }
  EXPECT_THAT(reported, testing::ElementsAre(
                            "nodes of class 0 of \"n\"", "nodes of class 1 of \"n\"",
                            "nodes of class 3 of \"n\"", "nodes in \"brand\" and \"type\" of \"n\"",
                            "nodes in \"brand\" and \"type\" and \"inner\" of \"n\""));
  EXPECT_TRUE(all_met);
  for (const auto& [begin, end] : masks) {
    std::vector<uint32_t> count(4);
    for (uint32_t node = begin; node < end; ++node) ++count[assignment.part[node]];
    for (const uint32_t of_part : count) {
      EXPECT_LE(of_part, (end - begin) / 4 * 1.1 + 3) << begin << ", " << end;
    }
  }
}

// METIS takes seeds of 31 bits.
TEST_F(AssignmentTest, SeedsOfEnginesDoNotWrap) {
  EXPECT_EQ(EngineSeed(1), 1U);
  EXPECT_EQ(EngineSeed(123456789), 123456789U);
  std::set<uint32_t> seeds;
  for (const uint64_t high :
       {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 32, ~uint64_t{0} << 32}) {
    for (uint64_t low = 0; low < 100; ++low) {
      const uint32_t seed = EngineSeed(high | low);
      EXPECT_LE(seed + 63, EngineAttempt::kMostSeed);
      seeds.insert(seed);
    }
  }
  EXPECT_EQ(seeds.size(), 400U);
}

// Classes are spread each by itself; a class that has fewer nodes than parts is named and left.
TEST_F(AssignmentTest, StreamingSpreadsClassesAndDegrees) {
  PartitionOptions options;
  options.num_parts = 4;
  options.imbalance = 1.2;
  NodeClasses classes{0, std::vector<uint16_t>(60), 3};
  for (uint16_t node = 0; node < 60; ++node) classes.class_of[node] = node < 20 ? 0 : 1;
  classes.class_of[59] = 2;
  options.classes = {classes};
  options.balance_edges = true;
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, Assign(options));
  ASSERT_EQ(assignment.balance.size(), 6U);
  EXPECT_EQ(assignment.balance[0].name, "nodes of class 0 of \"_N\"");
  EXPECT_EQ(assignment.balance[5].name, "in-edges of nodes of class 2 of \"_N\"");
  EXPECT_TRUE(assignment.balance[0].met);
  EXPECT_LE(assignment.balance[0].largest, 6U);
  EXPECT_TRUE(assignment.balance[1].met);
  EXPECT_THAT(assignment.balance[2].dropped, HasSubstr("only 1 nodes have any, for 4 parts"));
  EXPECT_EQ(assignment.balance[0].dropped, "");
}

TEST_F(AssignmentTest, OfSeveralTypesEachIsSpread) {
  const auto source = RandomSourceGraph(5);
  PH_ASSERT_OK_AND_ASSIGN(const HomogeneousGraph graph, HomogeneousGraph::Create(source.get()));
  PH_ASSERT_OK_AND_ASSIGN(const Assignment assignment, AssignParts(graph, {}, nullptr));
  EXPECT_EQ(assignment.balance.size(), graph.node_types().size());
}

// Weights are taken while they add up to 2^62, and not one more.
TEST_F(AssignmentTest, WeightsAreTakenUpToTheirBound) {
  constexpr uint64_t kMost = uint64_t{1} << 62;
  const auto with_rest = [](size_t n, uint64_t total) {
    std::vector<uint64_t> weights(n, 1);
    weights.back() = total - (n - 1);
    return weights;
  };
  for (const uint64_t beyond : {0, 1}) {
    PartitionOptions of_nodes;
    of_nodes.weights.nodes = {{"w", with_rest(60, kMost + beyond)}};
    PartitionOptions of_edges;
    of_edges.weights.edges = {with_rest(graph_.edge_types()[0].size, kMost + beyond)};
    for (const PartitionOptions& options : {of_nodes, of_edges}) {
      const absl::Status status = CheckPartitionOptions(graph_, options);
      if (beyond == 0) {
        EXPECT_THAT(status, IsOk());
      } else {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("they add up to more than 2^62")));
      }
    }
  }
}

TEST_F(AssignmentTest, RefusesOptionsByName) {
  const auto refusal = [this](auto set) {
    PartitionOptions options;
    set(options);
    const absl::Status status = Assign(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(DescribeParts(graph_, options, std::vector<uint32_t>(60)).status(), status);
    return std::string(status.message());
  };
  const std::string trainers = " trainers: together they must be at least 1 and at most 1048576";
  EXPECT_EQ(refusal([](auto& o) { o.num_parts = 0; }), "0 parts of 1" + trainers);
  EXPECT_EQ(refusal([](auto& o) { o.trainers_per_machine = 1 << 20; }),
            "2 parts of 1048576" + trainers);
  for (const uint32_t hops : {0U, 17U}) {
    EXPECT_EQ(refusal([hops](auto& o) { o.num_hops = hops; }),
              absl::StrCat("num_hops is ", hops,
                           ", but must be at least 1 (with 0, cut edges would "
                           "belong to no part) and at most 16"));
  }
  EXPECT_EQ(refusal([](auto& o) { o.imbalance = 0.9; }),
            "imbalance is 0.9, but must be at least 1");
  EXPECT_EQ(refusal([](auto& o) { o.imbalance = std::numeric_limits<double>::infinity(); }),
            "imbalance is inf, but must be at least 1");
  EXPECT_EQ(refusal([](auto& o) {
              o.halo = HaloKind::kInEdges;
              o.num_hops = 2;
            }),
            "num_hops is 2, but must be 1 for a halo of in-edges only");
  const auto classes = [&](std::vector<NodeClasses> given) {
    return refusal([&given](auto& o) { o.classes = given; });
  };
  const NodeClasses all{0, std::vector<uint16_t>(60), 2};
  EXPECT_EQ(classes({{1, {}, 1}}), "classes of node set 1, beyond 1 node sets");
  EXPECT_EQ(classes({all, all}), "node set \"_N\" has classes twice");
  EXPECT_EQ(classes({{0, {1, 2}, 3}}), "classes of 2 nodes for node set \"_N\" of 60");
  EXPECT_EQ(classes({{0, std::vector<uint16_t>(60, 3), 3}}),
            "node 0 of \"_N\" has class 3, beyond 3 classes");
  EXPECT_EQ(classes({{0, std::vector<uint16_t>(60), 257}}),
            "257 classes of nodes (each node set without is one), beyond 256");
  PartitionOptions most;
  most.classes = {{0, std::vector<uint16_t>(60), 256}};
  EXPECT_THAT(CheckPartitionOptions(graph_, most), IsOk());
}

TEST_F(AssignmentTest, RefusesWeightsThatDoNotFit) {
  const auto refusal = [this](auto set) {
    PartitionOptions options;
    set(options.weights);
    const absl::Status status = CheckPartitionOptions(graph_, options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const std::string number =
      "weights must be as many as the graph's nodes or edges, and at most 1024 a node";
  const std::vector<uint64_t> of_nodes(60, 1);
  const std::vector<uint64_t> of_edges(graph_.num_edges(), 1);
  EXPECT_EQ(refusal([](auto& w) { w.sizes.assign(59, 1); }), number);
  EXPECT_EQ(refusal([](auto& w) { w.nodes = {{"w", std::vector<uint64_t>(61, 1)}}; }), number);
  EXPECT_EQ(refusal([&](auto& w) { w.nodes = {{"w", {1}}, {"v", of_nodes}}; }), number);
  EXPECT_EQ(refusal([&](auto& w) { w.nodes.assign(1025, {"w", of_nodes}); }), number);
  EXPECT_EQ(refusal([&](auto& w) { w.edges = {of_edges, {}}; }), number);
  EXPECT_EQ(refusal([&](auto& w) { w.edges = {of_nodes}; }), number);
  PartitionOptions most;
  most.weights.nodes.assign(1024, {"w", of_nodes});
  most.weights.edges = {of_edges};
  most.weights.sizes = of_nodes;
  EXPECT_THAT(CheckPartitionOptions(graph_, most), IsOk());
  // Also where the sum would be small again.
  std::vector<uint64_t> heavy = of_nodes;
  heavy[3] = UINT64_MAX;
  EXPECT_EQ(refusal([&](auto& w) {
              w.nodes = {{"v", of_nodes}, {"w", heavy}};
            }),
            "w: they add up to more than 2^62");
  std::vector<uint64_t> heavy_edges = of_edges;
  heavy_edges[3] = UINT64_MAX;
  EXPECT_EQ(refusal([&](auto& w) { w.edges = {heavy_edges}; }),
            "weights of edges, in both directions: they add up to more than 2^62");
}

TEST_F(AssignmentTest, PartsThatAreNoneAreNotDescribed) {
  EXPECT_EQ(DescribeParts(graph_, {}, std::vector<uint32_t>(59)).status(),
            absl::InvalidArgumentError("parts of 59 nodes for a graph of 60 nodes"));
  std::vector<uint32_t> part(60);
  part[7] = 2;
  EXPECT_EQ(DescribeParts(graph_, {}, part).status(),
            absl::InvalidArgumentError("node 7 has part 2, beyond 2 parts"));
  part[7] = 1;
  EXPECT_THAT(DescribeParts(graph_, {}, part), IsOk());
}

TEST_F(AssignmentTest, MetisIsRefusedWithoutAnEngine) {
  PartitionOptions options;
  options.method = PartMethod::kMetis;
  EXPECT_EQ(Assign(options).status(), absl::FailedPreconditionError("METIS cannot be called here"));
}

TEST_F(AssignmentTest, CanBeCancelledAtAnyLook) {
  PartitionOptions options;
  for (int looks = 0; looks < 3; ++looks) {
    int left = looks;
    EXPECT_EQ(AssignParts(graph_, options, nullptr, {[&left] { return left-- == 0; }, nullptr})
                  .status()
                  .code(),
              absl::StatusCode::kCancelled);
  }
}

}  // namespace
}  // namespace packhouse
