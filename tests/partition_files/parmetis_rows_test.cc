#include "service/wings/partition/files/parmetis_rows.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition_files/failing_sink.h"
#include "tests/partition_files/partition_data.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParmetisRowsTest, RowsThatCannotBeAreNamed) {
  ParmetisNode node;
  EXPECT_THAT(ParseParmetisNode("5 1 0 1 9 0.5 x", ParmetisSide::kOutput, 2, &node), IsOk());
  EXPECT_EQ(node.new_id, 5U);
  EXPECT_THAT(node.weights, ElementsAre(0, 1));
  EXPECT_EQ(node.original, 9U);
  EXPECT_EQ(node.attributes, "0.5 x");
  EXPECT_THAT(ParseParmetisNode("1 0", ParmetisSide::kInput, 2, &node),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a weight is ''")));
  ParmetisEdge edge;
  EXPECT_THAT(ParseParmetisEdge("1 2 3", ParmetisSide::kInput, &edge),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the edge type is ''")));
  EXPECT_THAT(ReadParmetisStats("1 2 3\n4"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one line of three numbers")));
  EXPECT_THAT(ReadParmetisStats("1 2 3 4"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("one line of three numbers")));
  EXPECT_THAT(ReadParmetisStats("1 2 1025"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from 0 to 1024")));
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisStats stats, ReadParmetisStats("1 2 1024\n"));
  EXPECT_EQ(stats.num_nodes, 1U);
  EXPECT_EQ(stats.num_edges, 2U);
  EXPECT_EQ(stats.num_weights, 1024U);
  StringSink sink;
  TextWriter writer(sink);
  EXPECT_THAT(WriteParmetisStats(stats, writer), IsOk());
  EXPECT_THAT(writer.Finish(), IsOk());
  EXPECT_EQ(sink.bytes(), "1 2 1024\n");
}

TEST(ParmetisRowsTest, AGraphsNameCanBeginTheNameOfAFile) {
  EXPECT_THAT(CheckParmetisName("mini"), IsOk());
  for (const std::string name : {"", ".", "..", "a/b", "/a"}) {
    EXPECT_EQ(CheckParmetisName(name).code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_EQ(ParmetisPartFile(7, "mini", "nodes"), "p007-mini_nodes.txt");
  EXPECT_EQ(ParmetisPartFile(1000, "mini", "edges"), "p1000-mini_edges.txt");
}

// As METIS reads and writes them: what it wrote has new numbers before the rest.
TEST(ParmetisRowsTest, WhatIsReadIsWrittenAgain) {
  const auto rewritten = [](const std::string& line, ParmetisSide side, bool is_edge) {
    StringSink sink;
    TextWriter writer(sink);
    if (is_edge) {
      ParmetisEdge edge;
      EXPECT_THAT(ParseParmetisEdge(line, side, &edge), IsOk());
      EXPECT_THAT(WriteParmetisEdge(edge, side, writer), IsOk());
    } else {
      ParmetisNode node;
      EXPECT_THAT(ParseParmetisNode(line, side, 2, &node), IsOk());
      EXPECT_THAT(WriteParmetisNode(node, side, writer), IsOk());
    }
    EXPECT_THAT(writer.Finish(), IsOk());
    return sink.bytes();
  };
  for (const bool is_edge : {false, true}) {
    EXPECT_EQ(rewritten("1 2 3 4 0.5 x", ParmetisSide::kInput, is_edge), "1 2 3 4 0.5 x\n");
    EXPECT_EQ(rewritten("5 6 1 2 3 4 0.5 x", ParmetisSide::kOutput, is_edge),
              "5 6 1 2 3 4 0.5 x\n");
  }
}

TEST(ParmetisRowsTest, ALongTextIsWrittenOnce) {
  StringSink sink;
  TextWriter writer(sink);
  std::string text;
  for (uint64_t i = 0; i < 50'000; ++i) {
    writer.Number(i);
    ASSERT_THAT(writer.EndLine(), IsOk());
    absl::StrAppend(&text, i, "\n");
  }
  ASSERT_THAT(writer.Finish(), IsOk());
  EXPECT_TRUE(sink.bytes() == text);
}

TEST(ParmetisRowsTest, PartsMayComeInAnyOrder) {
  EXPECT_THAT(ReadParmetisParts("1 0\n0 2\n", 2, 3), IsOkAndHolds(std::vector<uint32_t>{2, 0}));
  const auto refused = [](const std::string& text, uint64_t nodes, const std::string& what) {
    EXPECT_THAT(ReadParmetisParts(text, nodes, 3),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  refused("1 0\n1 2\n", 2, "line 2: more than two numbers, or node 1 is there twice");
  refused("1 0\n", 2, "node 0 has no part");
  refused("1 0 0\n0 0\n", 2, "line 1: more than two numbers");
  refused("0 0\n", 0, "line 1: there are no nodes");
  EXPECT_THAT(ReadParmetisParts("", 0, 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 parts")));
  // The last line may lack its end.
  EXPECT_THAT(ReadParmetisParts("0 0\n1 1", 2, 3), IsOkAndHolds(std::vector<uint32_t>{0, 1}));
  EXPECT_THAT(ReadParmetisParts("0 0", 1, 3), IsOkAndHolds(std::vector<uint32_t>{0}));
  StringSink sink;
  EXPECT_THAT(WriteParmetisParts({2, 0}, sink), IsOk());
  EXPECT_EQ(sink.bytes(), "0 2\n1 0\n");
  const std::vector<uint32_t> many(30'000, 7);
  ExpectSinkErrorsAreTold([&](ByteSink& failing) { return WriteParmetisParts(many, failing); });
  refused("1 3\n0 0\n", 2, "line 1: a part is '3'");
  refused("2 0\n0 0\n", 2, "line 1: a node is '2'");
  refused("0 0\n", uint64_t{1} << 60, "the file has 4 bytes");
}

TEST(ParmetisRowsTest, SelfLoopsAndRepeatedPairsAreRemoved) {
  // The other direction of a pair is another pair.
  EXPECT_THAT(MarkRemovedEdges({0, 1, 2, 0, 0, 1}, {1, 0, 2, 1, 1, 2}),
              ElementsAre(false, false, true, true, true, false));
}

TEST(ParmetisRowsTest, SchemaMustTile) {
  PH_ASSERT_OK_AND_ASSIGN(
      const ParmetisSchema schema,
      ReadParmetisSchema(R"({"nid": {"b": [0, 2], "a": [2, 2], "c": [2, 5]}, "eid": {}})"));
  ASSERT_EQ(schema.node_types.size(), 3U);
  EXPECT_EQ(schema.node_types[1].name, "a");
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WriteParmetisSchema(schema));
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisSchema again, ReadParmetisSchema(text));
  EXPECT_EQ(again.node_types[2].end, 5U);
  EXPECT_THAT(ReadParmetisSchema(R"({"nid": {"b": [0, 2], "c": [3, 5]}, "eid": {}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nid 'c' is [3, 5)")));
  EXPECT_THAT(ReadParmetisSchema(R"({"nid": {"b": [0, 2]}, "eid": {"e": [0, 2, 3]}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("eid 'e' must be a range")));
  EXPECT_THAT(ReadParmetisSchema(R"({"nid": {"b": [0, 2], "c": [2, 1]}, "eid": {}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("nid 'c' is [2, 1)")));
  EXPECT_THAT(ReadParmetisSchema(R"({"nid": {}, "eid": {}})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no type")));
}

TEST(ParmetisRowsTest, RealFilesAreReadAndWrittenAgainEqual) {
  PH_SKIP_WITHOUT_PARTITION_DATA();
  const auto nodes = [](const std::string& name, ParmetisSide side) {
    const std::string text = PartitionFile("parmetis/" + name);
    TextLines lines(text);
    StringSink sink;
    TextWriter writer(sink);
    ParmetisNode node;
    while (const auto line = lines.Next()) {
      EXPECT_THAT(ParseParmetisNode(*line, side, 3, &node), IsOk());
      EXPECT_THAT(WriteParmetisNode(node, side, writer), IsOk());
    }
    EXPECT_THAT(writer.Finish(), IsOk());
    EXPECT_EQ(sink.bytes(), text) << name;
  };
  const auto edges = [](const std::string& name, ParmetisSide side) {
    const std::string text = PartitionFile("parmetis/" + name);
    TextLines lines(text);
    StringSink sink;
    TextWriter writer(sink);
    ParmetisEdge edge;
    while (const auto line = lines.Next()) {
      EXPECT_THAT(ParseParmetisEdge(*line, side, &edge), IsOk());
      EXPECT_THAT(WriteParmetisEdge(edge, side, writer), IsOk());
    }
    EXPECT_THAT(writer.Finish(), IsOk());
    EXPECT_EQ(sink.bytes(), text) << name;
  };
  nodes("mini_nodes.txt", ParmetisSide::kInput);
  edges("mini_edges.txt", ParmetisSide::kInput);
  edges("mini_removed_edges.txt", ParmetisSide::kInput);
  for (const uint64_t part : {0, 1}) {
    nodes(ParmetisPartFile(part, "mini", "nodes"), ParmetisSide::kOutput);
    edges(ParmetisPartFile(part, "mini", "edges"), ParmetisSide::kOutput);
  }
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisStats stats,
                          ReadParmetisStats(PartitionFile("parmetis/mini_stats.txt")));
  EXPECT_EQ(stats.num_edges, 1138U);
  const std::string text = PartitionFile("parmetis/mini_part.2");
  PH_ASSERT_OK_AND_ASSIGN(const auto parts, ReadParmetisParts(text, 273, 2));
  StringSink sink;
  EXPECT_THAT(WriteParmetisParts(parts, sink), IsOk());
  EXPECT_EQ(sink.bytes(), text);
}

}  // namespace
}  // namespace packhouse
