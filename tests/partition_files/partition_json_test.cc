#include "service/wings/partition/files/partition_json.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/partition_files/partition_data.h"
#include "tests/support/json_members.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

PartitionJson TwoParts() {
  PartitionJson json;
  json.graph_name = "mini";
  json.num_nodes = 7;
  json.num_edges = 5;
  json.part_method = "metis";
  // "tag" is absent from part 1.
  json.node_map = {{"tag", {{0, 2}, {3, 3}}}, {"item", {{2, 3}, {3, 7}}}};
  json.edge_map = {{"item:has:tag", {{0, 4}, {4, 5}}}};
  json.parts = {DglPartFileNames(0), DglPartFileNames(1)};
  return json;
}

TEST(PartitionJsonTest, GivesBackWhatWasWritten) {
  const PartitionJson json = TwoParts();
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WritePartitionJson(json));
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJson got, ReadPartitionJson(text));
  // Types keep their numbers, which need not be alphabetical.
  EXPECT_EQ(got, json);
  PartitionJson named = json;
  named.graph_name = "\xff";
  EXPECT_EQ(WritePartitionJson(named).status(), absl::InvalidArgumentError("a name is not UTF-8"));
}

TEST(PartitionJsonTest, RangesThatDoNotTileAreRefused) {
  PartitionJson json = TwoParts();
  json.node_map[0].parts[1] = {4, 4};
  EXPECT_THAT(WritePartitionJson(json),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("node_map of 'tag', part 1: [4, 4) must begin at 3")));
  json = TwoParts();
  json.node_map[0].parts[1] = {3, 2};
  EXPECT_THAT(CheckPartitionJson(json),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[3, 2) must begin at 3")));
  json = TwoParts();
  json.num_edges = 6;
  EXPECT_THAT(CheckPartitionJson(json), StatusIs(absl::StatusCode::kInvalidArgument,
                                                 HasSubstr("edge_map ends at 5, must end at 6")));
  json = TwoParts();
  json.edge_map[0].parts.pop_back();
  EXPECT_THAT(CheckPartitionJson(json),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 ranges, must have 2")));
}

TEST(PartitionJsonTest, FieldsAreChecked) {
  PH_ASSERT_OK_AND_ASSIGN(const std::string text, WritePartitionJson(TwoParts()));
  const auto with = [&text](const std::string& old, const std::string& now) {
    EXPECT_THAT(text, HasSubstr(old));
    return ReadPartitionJson(absl::StrReplaceAll(text, {{old, now}})).status();
  };
  const auto refused = [](absl::string_view what) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(what)));
  };
  EXPECT_THAT(with("part0/graph.dgl", "../graph.dgl"), refused("within the folder"));
  EXPECT_THAT(with("part0/graph.dgl", "/graph.dgl"), refused("within the folder"));
  for (const std::string path : {"", "..", "part0/../graph.dgl", "part0/..", "part0\\u0000"}) {
    EXPECT_THAT(with("part0/graph.dgl", path), refused("within the folder")) << path;
  }
  EXPECT_THAT(with("part0/graph.dgl", "part0/..graph.dgl"), IsOk());
  EXPECT_THAT(with("item:has:tag", "item:has:tag:tag"), refused("must be SOURCE:RELATION:TARGET"));
  EXPECT_THAT(with("item:has:tag", "user:has:tag"), refused("must be SOURCE:RELATION:TARGET"));
  EXPECT_THAT(with("\"num_parts\": 2", "\"num_parts\": 65537"), refused("must be 1 to 65536"));
  EXPECT_THAT(with("\"tag\": 0", "\"tag\": 2"), refused("must be its own and below 2"));
  EXPECT_THAT(with("item:has:tag", "has"), refused("must be SOURCE:RELATION:TARGET"));
  EXPECT_THAT(with("item:has:tag", "item:has:user"), refused("must be SOURCE:RELATION:TARGET"));
  EXPECT_THAT(with("\"num_nodes\": 7", "\"num_nodes\": -7"), refused("'num_nodes'"));
  EXPECT_THAT(with("\"num_parts\": 2", "\"num_parts\": 3"), refused("'part-2' must be there"));
  EXPECT_THAT(with("\"num_parts\": 2", "\"num_parts\": 0"), refused("num_parts is 0"));
  EXPECT_THAT(with("\"tag\"", "\"\""), refused("node_map has a type ''"));
  EXPECT_THAT(with("\"tag\": 0", "\"tag\": 1"), refused("must be its own"));
  ExpectMembersChecked(text, [](const std::string& of) { return ReadPartitionJson(of).status(); },
                       {{"etypes", "halo_hops", "part_method"}, {}});
  EXPECT_THAT(ReadPartitionJson("[1]"), refused("no object"));
  EXPECT_THAT(ReadPartitionJson(text.substr(1)), refused("no JSON"));
}

// As DGL wrote them, character by character.
TEST(PartitionJsonTest, NativeFilesAreReadAndWrittenAgainEqual) {
  PH_SKIP_WITHOUT_PARTITION_DATA();
  for (const std::string name : {"hetero_metis_k2_h1", "homo_metis_k4_h1"}) {
    const std::string text = PartitionFile(absl::StrCat("native/", name, "/", name, ".json"));
    PH_ASSERT_OK_AND_ASSIGN(const PartitionJson json, ReadPartitionJson(text));
    EXPECT_THAT(WritePartitionJson(json), IsOkAndHolds(text));
  }
}

}  // namespace
}  // namespace packhouse
