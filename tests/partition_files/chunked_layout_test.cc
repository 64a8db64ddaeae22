#include "service/wings/partition/files/chunked_layout.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition_files/partition_data.h"
#include "tests/support/json_members.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

ChunkedGraph SmallChunked() {
  ChunkedGraph graph;
  graph.graph_name = "g";
  graph.node_types = {{"b", 3, {2, 1}, {{"x", ChunkFormat::kNumpy, ' ', {"x0.npy", "x1.npy"}}}},
                      {"a", 0, {0}, {}}};
  graph.edge_types = {{"b:r:a",
                       4,
                       {4},
                       {"", ChunkFormat::kCsv, ',', {"e.csv"}},
                       {{"w", ChunkFormat::kParquet, ' ', {"w.parquet"}}}}};
  return graph;
}

TEST(ChunkedLayoutTest, GivesBackWhatWasWritten) {
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WriteChunkedMetadata(SmallChunked()));
  EXPECT_THAT(ReadChunkedMetadata(text), IsOkAndHolds(SmallChunked()));
}

TEST(ChunkedLayoutTest, EitherKindOfCountsWillDo) {
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WriteChunkedMetadata(SmallChunked()));
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedGraph by_chunk, ReadChunkedMetadata(absl::StrReplaceAll(
                                                           text, {{"_per_type", "_unknown"}})));
  EXPECT_EQ(by_chunk, SmallChunked());
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedGraph by_type, ReadChunkedMetadata(absl::StrReplaceAll(
                                                          text, {{"_per_chunk", "_unknown"}})));
  EXPECT_EQ(by_type.node_types[0].num_nodes, 3U);
  EXPECT_TRUE(by_type.node_types[0].chunks.empty());
}

TEST(ChunkedLayoutTest, WhatDoesNotFitIsNamed) {
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WriteChunkedMetadata(SmallChunked()));
  const auto with = [&text](const std::string& old, const std::string& now) {
    EXPECT_THAT(text, HasSubstr(old));
    return ReadChunkedMetadata(absl::StrReplaceAll(text, {{old, now}})).status();
  };
  const auto refused = [](const std::string& what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what));
  };
  EXPECT_THAT(with("b:r:a", "b:r:c"), refused("edge type 'b:r:c'"));
  EXPECT_THAT(with("\"parquet\"", "\"hdf5\""), refused("edge_data 'w': format 'hdf5'"));
  EXPECT_THAT(with("\",\"", "\",,\""), refused("delimiter"));
  EXPECT_THAT(with("\"a\"", "\"b\""), refused("node type 'b' is there twice"));
  EXPECT_THAT(with("_per_", "_of_"), refused("neither num_nodes_per_chunk nor"));
  EXPECT_THAT(with("            2,\n", "            7,\n"), refused("the chunks have 8"));
  EXPECT_THAT(with("            2,\n", "            18446744073709551615,\n            1,\n"),
              refused("num_nodes_per_chunk exceeds 2^64"));
  EXPECT_THAT(with("        [\n            0\n        ]", "        [0], [0]"),
              refused("num_nodes_per_chunk must be a list of 2 lists"));
  EXPECT_THAT(with("\"num_edges_per_type\": [", "\"num_edges_per_type\": [4, "),
              refused("num_edges_per_type has 2 numbers, must have 1"));
  ChunkedGraph twice = SmallChunked();
  twice.edge_types.push_back(twice.edge_types[0]);
  PH_ASSERT_OK_AND_ASSIGN(const std::string text_of_twice, WriteChunkedMetadata(twice));
  EXPECT_EQ(ReadChunkedMetadata(text_of_twice).status(),
            absl::InvalidArgumentError("edge type 'b:r:a' must be source:relation:target of node "
                                       "types, and there once"));
  for (const std::string edge_type : {"b:r", "b:r:a:a", "c:r:a", "r"}) {
    EXPECT_THAT(with("b:r:a", edge_type), refused("edge type '" + edge_type + "' must be"));
  }

  ExpectMembersChecked(
      text, [](const std::string& of) { return ReadChunkedMetadata(of).status(); },
      // Either kind of counts will do, and features are any.
      {{"graph_name", "num_nodes_per_chunk", "num_nodes_per_type", "num_edges_per_chunk",
        "num_edges_per_type", "delimiter", "node_data", "edge_data", "a", "b", "x", "w", "b:r:a"},
       {}});
}

// As the pipeline reads it: edges have blanks between their ends.
TEST(ChunkedLayoutTest, ADelimiterThatIsNotThereIsThePipelines) {
  ChunkedGraph graph = SmallChunked();
  graph.edge_types[0].features[0].format = ChunkFormat::kCsv;
  PH_ASSERT_OK_AND_ASSIGN(std::string text, WriteChunkedMetadata(graph));
  absl::StrReplaceAll({{"\"delimiter\"", "\"unknown\""}}, &text);
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedGraph read, ReadChunkedMetadata(text));
  EXPECT_EQ(read.edge_types[0].edges.delimiter, ' ');
  EXPECT_EQ(read.edge_types[0].features[0].delimiter, ',');
}

TEST(ChunkedLayoutTest, WithoutChunksAllIsOne) {
  ChunkedGraph graph = SmallChunked();
  graph.node_types[0].chunks.clear();
  graph.edge_types[0].chunks.clear();
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WriteChunkedMetadata(graph));
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedGraph read, ReadChunkedMetadata(text));
  EXPECT_EQ(read.node_types[0].chunks, std::vector<uint64_t>{3});
  EXPECT_EQ(read.edge_types[0].chunks, std::vector<uint64_t>{4});
}

TEST(AssignmentMetaTest, NamesTheTwoAlgorithmsThatThePipelineKnows) {
  EXPECT_THAT(
      WriteAssignmentMeta({4, "random"}),
      IsOkAndHolds(std::string(R"({"version":"1.0.0","num_parts":4,"algo_name":"random"})")));
  EXPECT_THAT(ReadAssignmentMeta(R"({"num_parts": 65536, "algo_name": "metis"})"), IsOk());
  EXPECT_THAT(ReadAssignmentMeta(R"({"num_parts": 65537, "algo_name": "metis"})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be 1 to 65536")));
  EXPECT_THAT(
      WriteAssignmentMeta({4, "streaming"}),
      IsOkAndHolds(std::string(R"({"version":"1.0.0","num_parts":4,"algo_name":"metis"})")));
  EXPECT_THAT(ReadAssignmentMeta(R"({"num_parts": 4, "algo_name": "random"})"),
              IsOkAndHolds(AssignmentMeta{4, "random"}));
  EXPECT_THAT(ReadAssignmentMeta(R"({"num_parts": 0, "algo_name": "random"})"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_parts is 0")));
  ExpectMembersChecked(R"({"num_parts": 4, "algo_name": "random"})",
                       [](const std::string& of) { return ReadAssignmentMeta(of).status(); });
}

TEST(ChunkedLayoutTest, RealFiles) {
  PH_SKIP_WITHOUT_PARTITION_DATA();
  PH_ASSERT_OK_AND_ASSIGN(const ChunkedGraph graph,
                          ReadChunkedMetadata(PartitionFile("chunked/metadata.json")));
  ASSERT_EQ(graph.node_types.size(), 3U);
  EXPECT_EQ(graph.node_types[2].name, "user");
  EXPECT_EQ(graph.node_types[2].features[1].name, "label");
  EXPECT_EQ(graph.edge_types[4].num_edges, 420U);
  EXPECT_EQ(graph.edge_types[4].edges.files[1], "edge_index/user_follows_user1.txt");
  EXPECT_THAT(ReadAssignmentMeta(PartitionFile("chunked/parts/partition_meta.json")),
              IsOkAndHolds(AssignmentMeta{2, "metis"}));
}

}  // namespace
}  // namespace packhouse
