#include "service/wings/partition/files/metis_graph_file.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition_files/failing_sink.h"
#include "tests/partition_files/partition_data.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

MetisGraph RandomMetisGraph(Random& random) {
  const uint64_t n = random.Between(1, 12);
  std::vector<std::vector<std::pair<uint32_t, uint64_t>>> rows(n);
  for (uint64_t v = 0; v < n; ++v) {
    for (uint64_t u = 0; u < v; ++u) {
      if (random.Below(3) != 0) continue;
      const uint64_t weight = random.Between(1, 9);
      rows[v].emplace_back(u, weight);
      rows[u].emplace_back(v, weight);
    }
  }
  MetisGraph graph;
  const bool weighted = random.Below(2) == 0;
  const bool sized = random.Below(2) == 0;
  graph.num_constraints = random.Below(3);
  for (uint64_t v = 0; v < n; ++v) {
    for (const auto& [u, weight] : rows[v]) {
      graph.neighbours.push_back(u);
      if (weighted) graph.edge_weights.push_back(weight);
    }
    graph.offsets.push_back(graph.neighbours.size());
    for (uint64_t c = 0; c < graph.num_constraints; ++c) {
      graph.vertex_weights.push_back(random.Below(4));
    }
    if (sized) graph.vertex_sizes.push_back(random.Below(4));
  }
  return graph;
}

// Isolated vertices, which have empty lines, among them.
TEST(MetisGraphFileTest, GivesBackWhatWasWritten) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    MetisGraph graph = RandomMetisGraph(random);
    // Without an edge, nothing says that edges have weights.
    if (graph.neighbours.empty()) graph.edge_weights.clear();
    StringSink sink;
    ASSERT_THAT(WriteMetisGraph(graph, sink), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const MetisGraph got, ReadMetisGraph(sink.bytes()));
    EXPECT_EQ(got, graph);
  }
}

TEST(MetisGraphFileTest, WhatMetisDoesNotNoticeIsNamed) {
  const auto refused = [](const std::string& text, const std::string& what) {
    EXPECT_THAT(ReadMetisGraph(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)))
        << text;
  };
  refused("2 1\n2\n\n", "two for each of the head's 1 edges");
  refused("2 2\n2\n1\n", "two for each of the head's 2 edges");
  refused("3 1\n2\n3\n\n", "vertex 1 has an edge that its other end does not have");
  refused("2 1 001\n2 5\n1 4\n", "with another weight");
  refused("2 1\n1\n2\n", "vertex 1 is joined to itself");
  refused("2 2\n2 2\n1 1\n", "has the neighbour 2 twice");
  refused("2 1\n3\n1\n", "line 2: a neighbour is '3', must be a whole number from 0 to 2");
  refused("2 1\n0\n1\n", "line 2: a neighbour is 0");
  refused("2 1\n2\n", "lines for 1 vertices, its head says 2");
  refused("2 1\n2\n1\n1\n", "line 4: there are only 2 vertices");
  refused("2 1 2\n2\n1\n", "fmt is '2'");
  refused("2 1 0000\n2\n1\n", "fmt is '0000'");
  refused("2 1 011 1 1\n1 2 1\n1 1 1\n", "ncon is 1");
  refused("2 1 010 0\n2\n1\n", "ncon is 0");
  refused("2 1 010 1025\n2\n1\n", "ncon is '1025', must be a whole number from 0 to 1024");
  refused("2 9223372036854775808\n2\n1\n", "the number of edges is '9223372036854775808'");
  refused("2 1 010\n2\n1\n", "two for each of the head's 1 edges");
  EXPECT_THAT(ReadMetisGraph("2 1 001 1\n2 1\n1 1\n"), IsOk());
  refused("2 1 010 1024\n1 2\n1 1\n", "line 2: a vertex weight is ''");
  refused("2 1 100\nx 2\n1 1\n", "line 2: a vertex size is 'x', must be a whole number");
  refused("2 1 001 2\n2 1\n1 1\n", "ncon is 2");
  refused("2 1 001\n2 0\n1 0\n", "an edge weight is 0");
  refused("2 1 001\n2\n1\n", "an edge weight is ''");
  refused("% only a comment\n", "has no head");
  refused("-2 1\n", "the number of vertices is '-2'");
  refused("9999999999 0\n", "the number of vertices");
  EXPECT_THAT(ReadMetisGraph("% c\n2 1 1\n% c\n2 3\n1 3\n\n% end"), IsOk());
}

TEST(MetisGraphFileTest, ErrorsOfTheSinkAreTold) {
  const std::vector<uint32_t> parts(60'000, 7);
  MetisGraph graph;
  graph.vertex_sizes.assign(parts.size(), 7);
  graph.offsets.resize(parts.size() + 1);
  ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WriteMetisGraph(graph, sink); });
  ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WritePartLines(parts, sink); });
}

TEST(MetisGraphFileTest, WriterKeepsToItsHead) {
  StringSink sink;
  MetisGraphHead head;
  head.num_vertices = 2;
  head.num_edges = 1;
  MetisGraphWriter writer(head, sink);
  EXPECT_THAT(writer.Vertex({1}), IsOk());
  EXPECT_THAT(writer.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("written were 1 and 1 ends")));
  EXPECT_THAT(writer.Vertex({0}, {}, {4}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                    HasSubstr("1 weights, must have 0 and 0")));
  EXPECT_THAT(writer.Vertex({0}), IsOk());
  EXPECT_THAT(writer.Finish(), IsOk());
  MetisGraphWriter half(head, sink);
  EXPECT_THAT(half.Vertex({1}), IsOk());
  EXPECT_THAT(half.Vertex({}), IsOk());
  EXPECT_THAT(half.Finish(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("written were 2 and 1 ends")));
  EXPECT_THAT(writer.Vertex({0}, {4}), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                HasSubstr("vertex 3 has 1 edge weights")));
  MetisGraph graph;
  graph.offsets = {0, 0, 0};
  graph.num_constraints = 1;
  graph.vertex_weights = {4};
  EXPECT_THAT(WriteMetisGraph(graph, sink),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("vertex 2 has 0 edge weights and 0 weights, must have 0 and 1")));
}

TEST(MetisGraphFileTest, PartLines) {
  StringSink sink;
  ASSERT_THAT(WritePartLines({2, 0, 1}, sink), IsOk());
  EXPECT_EQ(sink.bytes(), "2\n0\n1\n");
  EXPECT_THAT(ReadPartLines(sink.bytes(), 3, 3), IsOkAndHolds(std::vector<uint32_t>{2, 0, 1}));
  EXPECT_THAT(ReadPartLines("", 0, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the number of parts is 0")));
  EXPECT_THAT(ReadPartLines("2\n0 1\n", 2, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2: more than one")));
  EXPECT_THAT(ReadPartLines(sink.bytes(), 3, 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 1: a part is '2'")));
  EXPECT_THAT(ReadPartLines(sink.bytes(), 2, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 3: there are only 2")));
  EXPECT_THAT(ReadPartLines(sink.bytes(), 4, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 lines, there are 4")));
}

TEST(MetisGraphFileTest, FourFormsOfRealFiles) {
  PH_SKIP_WITHOUT_PARTITION_DATA();
  for (const std::string name : {"tiny", "tiny_ew", "tiny_vs", "tiny_vw2"}) {
    const std::string text = PartitionFile("metis/" + name + ".graph");
    PH_ASSERT_OK_AND_ASSIGN(const MetisGraph graph, ReadMetisGraph(text));
    EXPECT_EQ(graph.num_vertices(), 7U);
    EXPECT_EQ(graph.neighbours.size(), 22U);
    StringSink sink;
    ASSERT_THAT(WriteMetisGraph(graph, sink), IsOk());
    // Except the comment.
    EXPECT_EQ(sink.bytes(), text.substr(text.find('\n') + 1)) << name;
  }
}

}  // namespace
}  // namespace packhouse
