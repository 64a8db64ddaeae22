#include "service/wings/partition/files/parmetis_converter.h"

#include <cstring>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "tests/partition_files/failing_sink.h"
#include "tests/partition_files/partition_data.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

std::vector<int64_t> Int64s(const std::vector<ArrayView>& arrays, const std::string& name) {
  const ArrayView* const array = FindArray(arrays, name);
  EXPECT_NE(array, nullptr) << name;
  std::vector<int64_t> values(array->bytes.size() / sizeof(int64_t));
  std::memcpy(values.data(), array->bytes.data(), array->bytes.size());
  return values;
}

// The texts of a conversion. Part 0 has a b (node 1 of the schema), part 1 both a's: node type "a"
// is absent from part 0. Removed: a self loop at a node without other in-edges, and two copies of
// an edge.
struct Texts {
  std::vector<std::string> nodes = {"0 1 1 0 7 0.5\n", "1 0 1 0\n2 0 1 1\n"};
  std::vector<std::string> edges = {"2 0 1 2 0 1\n", "0 2 2 1 0 0\n"};
  std::string removed = "0 0 0 2\n1 2 1 1\n1 2 2 1\n";
  DType attributes = DType::kFloat32;
  std::string schema =
      R"({"nid": {"a": [0, 2], "b": [2, 3]}, "eid": {"ba": [0, 1], "ab": [1, 4], "aa": [4, 5]}})";

  absl::StatusOr<ParmetisConverter> Convert() const {
    ParmetisFiles files;
    absl::StatusOr<ParmetisSchema> parsed = ReadParmetisSchema(schema);
    if (!parsed.ok()) return parsed.status();
    files.schema = *std::move(parsed);
    files.nodes = {nodes[0], nodes[1]};
    files.edges = {edges[0], edges[1]};
    files.removed_edges = removed;
    files.node_attributes = attributes;
    files.edge_attributes = attributes;
    return ParmetisConverter::Create(std::move(files));
  }
};

std::string FileOfGraph(const DglGraphSource& graph) {
  StringSink sink;
  EXPECT_THAT(WriteDglGraphFile(graph, sink), IsOk());
  return sink.bytes();
}

TEST(ParmetisConverterTest, RestoresSelfLoopsAndAllCopies) {
  const Texts texts;
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
  const PartitionJson json = converter.Json("g", "metis");
  EXPECT_THAT(CheckPartitionJson(json), IsOk());
  EXPECT_EQ(json.num_nodes, 3U);
  EXPECT_EQ(json.num_edges, 5U);
  EXPECT_EQ(json.node_map[0], (TypeRanges{"a", {{0, 0}, {1, 3}}}));
  EXPECT_EQ(json.edge_map[0].name, "b:ba:a");
  EXPECT_EQ(json.edge_map[1], (TypeRanges{"a:ab:b", {{0, 3}, {4, 4}}}));
  EXPECT_EQ(json.edge_map[2], (TypeRanges{"a:aa:a", {{3, 3}, {4, 5}}}));

  PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(0));
  const std::string file = FileOfGraph(converter.Graph(part));
  PH_ASSERT_OK_AND_ASSIGN(const DglGraphView graph, ReadDglGraphFile(file));
  EXPECT_THAT(Int64s(graph.edge_data, "orig_id"), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(Int64s(graph.node_data, "_ID"), testing::ElementsAre(0, 2));
  EXPECT_THAT(Int64s(graph.node_data, "part_id"), testing::ElementsAre(0, 1));
  PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart other, converter.PartOf(1));
  EXPECT_EQ(other.edges.size(), 2U);
  EXPECT_EQ(other.edges[1].source, other.edges[1].target);
  // Attributes are one matrix; a part without the type has it without rows.
  EXPECT_EQ(converter.NodeFeatures(part)[0].header.name, "b/feat");
  EXPECT_EQ(converter.NodeFeatures(part)[0].header.shape, (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(converter.NodeFeatures(other)[0].header.shape, (std::vector<uint64_t>{0, 2}));
  StringSink rows;
  EXPECT_THAT(WriteRows(converter.NodeFeatures(part)[0], rows), IsOk());
  const float want[] = {7, 0.5};
  EXPECT_EQ(rows.bytes(), std::string(reinterpret_cast<const char*>(want), sizeof(want)));
}

// A part has a matrix of every type of edge, without rows where it has none of them.
TEST(ParmetisConverterTest, EveryEdgeHasItsOwnAttributes) {
  Texts texts;
  texts.edges = {"2 0 1 2 0 1 10\n", "0 2 2 1 0 0 20\n"};
  texts.removed = "0 0 0 2 30\n1 2 1 1 11\n1 2 2 1 12\n";
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
  using Rows = std::vector<std::pair<std::string, std::vector<float>>>;
  const Rows want[] = {{{"b:ba:a/feat", {}}, {"a:ab:b/feat", {10, 11, 12}}, {"a:aa:a/feat", {}}},
                       {{"b:ba:a/feat", {20}}, {"a:ab:b/feat", {}}, {"a:aa:a/feat", {30}}}};
  for (const uint64_t number : {0, 1}) {
    PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(number));
    Rows got;
    for (const ArraySource& array : converter.EdgeFeatures(part)) {
      StringSink sink;
      EXPECT_THAT(WriteRows(array, sink), IsOk());
      std::vector<float> values(array.header.shape[0]);
      ASSERT_EQ(sink.bytes().size(), values.size() * sizeof(float));
      std::memcpy(values.data(), sink.bytes().data(), sink.bytes().size());
      got.emplace_back(array.header.name, values);
    }
    EXPECT_EQ(got, want[number]);
  }
}

template <typename T>
std::string BytesOfRow(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

TEST(ParmetisConverterTest, AttributesHaveTheTypeThatIsAskedFor) {
  Texts texts;
  texts.nodes[0] = "0 1 1 0 7 -2\n";
  const std::pair<DType, std::string> types[] = {{DType::kInt32, BytesOfRow<int32_t>({7, -2})},
                                                 {DType::kInt64, BytesOfRow<int64_t>({7, -2})},
                                                 {DType::kFloat32, BytesOfRow<float>({7, -2})},
                                                 {DType::kFloat64, BytesOfRow<double>({7, -2})}};
  for (const auto& [dtype, row] : types) {
    texts.attributes = dtype;
    PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
    PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(0));
    const std::vector<ArraySource> arrays = converter.NodeFeatures(part);
    ASSERT_EQ(arrays.size(), 1U);
    EXPECT_EQ(arrays[0].header.dtype, dtype);
    StringSink sink;
    EXPECT_THAT(WriteRows(arrays[0], sink), IsOk());
    EXPECT_EQ(sink.bytes(), row);
  }
  texts.attributes = DType::kInt16;
  EXPECT_THAT(texts.Convert(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no other type")));
}

// Also between the blocks of a matrix that is written while it is parsed.
TEST(ParmetisConverterTest, ErrorsOfSinksAreTold) {
  std::string row;
  for (size_t i = 0; i < kConvertedElements; ++i) row += " 1";
  Texts texts;
  texts.nodes[1] = absl::StrCat("1 0 1 0", row, "\n2 0 1 1", row, "\n");
  texts.edges = {"2 0 1 2 0 1 10\n", "0 2 2 1 0 0 20\n"};
  texts.removed = "0 0 0 2 30\n1 2 1 1 11\n1 2 2 1 12\n";
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
  for (const uint64_t number : {0, 1}) {
    PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(number));
    ExpectSinkErrorsAreTold(
        [&](ByteSink& sink) { return WriteDglGraphFile(converter.Graph(part), sink); });
    for (const auto& arrays : {converter.NodeFeatures(part), converter.EdgeFeatures(part)}) {
      for (const ArraySource& array : arrays) {
        if (array.header.shape[0] == 0) continue;
        ExpectSinkErrorsAreTold([&](ByteSink& sink) { return WriteRows(array, sink); });
      }
    }
  }
}

TEST(ParmetisConverterTest, WhatDoesNotFitIsNamed) {
  const auto refused = [](const Texts& texts, const std::string& what) {
    EXPECT_THAT(texts.Convert(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(what)));
  };
  Texts texts;
  texts.removed = "";
  refused(texts, "edge 1 of 'ab' is neither in a part nor among the removed edges");
  texts = Texts();
  texts.removed += "1 2 2 1\n";
  refused(texts, "removed edges: line 4: edge 2 of type 1 is there twice");
  texts = Texts();
  texts.nodes[1] = "1 0 1 0\n3 0 1 1\n";
  refused(texts, "nodes of part 1: line 2: new id 3");
  texts = Texts();
  texts.nodes[1] = "1 0 1 0\n2 0 1 0\n";
  refused(texts, "node 0 of 'a' is there twice");
  texts = Texts();
  texts.nodes[1] = "1 0 1 0\n";
  refused(texts, "node 1 of the schema is in no part");
  texts = Texts();
  texts.edges[0] = "1 0 1 2 0 1\n";
  refused(texts, "edges of part 0: line 1: the edge from 1 to 2 has new ids 1 and 0");
  texts = Texts();
  std::swap(texts.edges[0], texts.edges[1]);
  refused(texts, "must be in this part");
  texts = Texts();
  texts.removed = "0 0 1 1\n1 2 2 1\n1 1 0 2\n";
  refused(texts, "edge type 'ab' joins other types of nodes");
  texts = Texts();
  texts.removed = "0 0 0 2\n1 2 1 1 0.5\n1 2 2 1\n";
  refused(texts, "1 attributes, other rows of this type have 0");
  texts = Texts();
  texts.schema = absl::StrReplaceAll(texts.schema, {{"\"aa\"", "\"a:aa:b\""}});
  refused(texts, "'a:aa:b' does not name the types");
  texts = Texts();
  texts.schema = absl::StrReplaceAll(texts.schema, {{"[4, 5]", "[4, 5], \"none\": [5, 5]"}});
  refused(texts, "edge type 'none' has no edges: name it");
  texts = Texts();
  texts.nodes[0] = "0 1 1 0 x\n";
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
  PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(0));
  StringSink rows;
  EXPECT_THAT(WriteRows(converter.NodeFeatures(part)[0], rows),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("attribute 'x' of row 0")));
}

// All 1,321 edges of the real case come back, each with the ends that it had.
TEST(ParmetisConverterTest, RealCaseComesBackWhole) {
  PH_SKIP_WITHOUT_PARTITION_DATA();
  const auto file = [](const std::string& name) { return PartitionFile("parmetis/" + name); };
  std::vector<std::string> texts;
  for (const uint64_t part : {0, 1}) {
    for (const char* const what : {"nodes", "edges"}) {
      texts.push_back(file(ParmetisPartFile(part, "mini", what)));
    }
  }
  const std::string kept = file("mini_edges.txt");
  const std::string removed = file("mini_removed_edges.txt");
  ParmetisFiles files;
  PH_ASSERT_OK_AND_ASSIGN(files.schema, ReadParmetisSchema(file("mini.json")));
  files.num_weights = 3;
  files.nodes = {texts[0], texts[2]};
  files.edges = {texts[1], texts[3]};
  files.removed_edges = removed;
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter,
                          ParmetisConverter::Create(std::move(files)));
  const PartitionJson json = converter.Json("mini", "metis");
  EXPECT_EQ(json.num_edges, 1321U);
  // (type, id in type) -> ends as (type, id in type).
  using Ends = std::tuple<int64_t, int64_t, int64_t, int64_t>;
  std::map<std::pair<int64_t, int64_t>, Ends> got;
  for (const uint64_t number : {0, 1}) {
    PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(number));
    const std::string graph_file = FileOfGraph(converter.Graph(part));
    PH_ASSERT_OK_AND_ASSIGN(const DglGraphView graph, ReadDglGraphFile(graph_file));
    const auto types = Int64s(graph.node_data, "_TYPE");
    const auto ids = Int64s(graph.node_data, "orig_id");
    const auto sources = Int64s({graph.coo->sources}, "sources");
    const auto targets = Int64s({graph.coo->targets}, "targets");
    const auto edge_types = Int64s(graph.edge_data, "_TYPE");
    const auto edge_ids = Int64s(graph.edge_data, "orig_id");
    for (size_t e = 0; e < sources.size(); ++e) {
      const auto s = static_cast<size_t>(sources[e]);
      const auto t = static_cast<size_t>(targets[e]);
      EXPECT_TRUE(got.emplace(std::pair(edge_types[e], edge_ids[e]),
                              Ends(types[s], ids[s], types[t], ids[t]))
                      .second);
    }
  }
  EXPECT_EQ(got.size(), 1321U);
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisSchema schema, ReadParmetisSchema(file("mini.json")));
  const auto of = [&schema](uint64_t node) {
    int64_t type = 0;
    while (node >= schema.node_types[type].end) ++type;
    return std::pair(type, static_cast<int64_t>(node - schema.node_types[type].begin));
  };
  for (const std::string& text : {kept, removed}) {
    TextLines lines(text);
    ParmetisEdge edge;
    while (const auto line = lines.Next()) {
      ASSERT_THAT(ParseParmetisEdge(*line, ParmetisSide::kInput, &edge), IsOk());
      const auto [source_type, source] = of(edge.source);
      const auto [target_type, target] = of(edge.target);
      const std::pair<int64_t, int64_t> id(edge.type, edge.original);
      EXPECT_EQ(got[id], Ends(source_type, source, target_type, target));
    }
  }
}

}  // namespace
}  // namespace packhouse
