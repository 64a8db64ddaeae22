#include "service/wings/partition/files/parmetis_converter.h"

#include <cstring>
#include <functional>
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

// A part may be without nodes, also the first or the last, and a graph without types of edges.
TEST(ParmetisConverterTest, APartMayBeEmpty) {
  for (const uint64_t empty : {0, 1}) {
    Texts texts;
    texts.schema = R"({"nid": {"a": [0, 2]}, "eid": {}})";
    texts.nodes[empty].clear();
    texts.nodes[1 - empty] = "0 0 1 0 5\n1 0 1 1 6\n";
    texts.edges = {"", ""};
    texts.removed.clear();
    PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
    EXPECT_EQ(converter.Json("g", "metis").num_edges, 0U);
    for (const uint64_t number : {0, 1}) {
      PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(number));
      EXPECT_EQ(part.num_inner, number == empty ? 0U : 2U);
      const std::vector<ArraySource> features = converter.NodeFeatures(part);
      ASSERT_EQ(features.size(), 1U);
      EXPECT_EQ(features[0].header.shape, (std::vector<uint64_t>{part.num_inner, 1}));
      EXPECT_TRUE(converter.EdgeFeatures(part).empty());
    }
  }
}

// All arrays of both parts, and of one part that has everything.
TEST(ParmetisConverterTest, GraphsHaveTheseArrays) {
  using Arrays = std::map<std::string, std::vector<int64_t>>;
  const auto arrays_of = [](const ParmetisConverter& converter, uint64_t number) {
    const absl::StatusOr<ConvertedPart> part = converter.PartOf(number);
    EXPECT_THAT(part, IsOk());
    const std::string file = FileOfGraph(converter.Graph(*part));
    const DglGraphView graph = *ReadDglGraphFile(file);
    Arrays arrays;
    arrays["sources"] = Int64s({graph.coo->sources}, "sources");
    arrays["targets"] = Int64s({graph.coo->targets}, "targets");
    for (const bool nodes : {true, false}) {
      for (const ArrayView& array : nodes ? graph.node_data : graph.edge_data) {
        std::vector<int64_t>& values = arrays[(nodes ? "nodes/" : "edges/") + array.header.name];
        if (array.header.dtype == DType::kInt64) {
          values = Int64s({array}, array.header.name);
        } else {
          EXPECT_EQ(array.header.dtype, DType::kUint8);
          values.assign(array.bytes.begin(), array.bytes.end());
        }
      }
    }
    return arrays;
  };
  Texts texts;
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
  EXPECT_EQ(arrays_of(converter, 0), (Arrays{{"sources", {1, 1, 1}},
                                             {"targets", {0, 0, 0}},
                                             {"nodes/_ID", {0, 2}},
                                             {"nodes/inner_node", {1, 0}},
                                             {"nodes/part_id", {0, 1}},
                                             {"nodes/_TYPE", {1, 0}},
                                             {"nodes/orig_id", {0, 1}},
                                             {"edges/_ID", {0, 1, 2}},
                                             {"edges/inner_edge", {1, 1, 1}},
                                             {"edges/_TYPE", {1, 1, 1}},
                                             {"edges/orig_id", {0, 1, 2}}}));
  EXPECT_EQ(arrays_of(converter, 1), (Arrays{{"sources", {2, 0}},
                                             {"targets", {1, 0}},
                                             {"nodes/_ID", {1, 2, 0}},
                                             {"nodes/inner_node", {1, 1, 0}},
                                             {"nodes/part_id", {1, 1, 0}},
                                             {"nodes/_TYPE", {0, 0, 1}},
                                             {"nodes/orig_id", {0, 1, 0}},
                                             {"edges/_ID", {3, 4}},
                                             {"edges/inner_edge", {1, 1}},
                                             {"edges/_TYPE", {0, 2}},
                                             {"edges/orig_id", {0, 0}}}));
  EXPECT_EQ(converter.num_parts(), 2U);
  const PartitionJson json = converter.Json("g", "random");
  EXPECT_EQ(json.graph_name, "g");
  EXPECT_EQ(json.part_method, "random");
  EXPECT_EQ(json.node_map[1], (TypeRanges{"b", {{0, 1}, {3, 3}}}));
  EXPECT_EQ(json.edge_map[0], (TypeRanges{"b:ba:a", {{0, 0}, {3, 4}}}));
  ASSERT_EQ(json.parts.size(), 2U);
  EXPECT_EQ(json.parts[1].graph, DglPartFileNames(1).graph);

  ParmetisFiles one;
  PH_ASSERT_OK_AND_ASSIGN(one.schema, ReadParmetisSchema(texts.schema));
  one.nodes = {"0 0 1 0\n1 0 1 1\n2 1 1 0\n"};
  one.edges = {"1 2 1 2 0 1\n2 1 2 1 0 0\n"};
  one.removed_edges = texts.removed;
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter whole, ParmetisConverter::Create(one));
  EXPECT_EQ(arrays_of(whole, 0), (Arrays{{"sources", {2, 1, 1, 1, 0}},
                                         {"targets", {1, 2, 2, 2, 0}},
                                         {"nodes/_ID", {0, 1, 2}},
                                         {"nodes/inner_node", {1, 1, 1}},
                                         {"nodes/_TYPE", {0, 0, 1}},
                                         {"nodes/orig_id", {0, 1, 0}},
                                         {"edges/_ID", {0, 1, 2, 3, 4}},
                                         {"edges/inner_edge", {1, 1, 1, 1, 1}},
                                         {"edges/_TYPE", {0, 1, 1, 1, 2}},
                                         {"edges/orig_id", {0, 0, 1, 2, 0}}}));
}

TEST(ParmetisConverterTest, WhatDoesNotFitIsNamed) {
  // Any number of replacements in the texts.
  using Change = std::function<void(Texts&)>;
  const auto schema = [](const char* from, const char* to) -> Change {
    return [from, to](Texts& texts) {
      EXPECT_EQ(absl::StrReplaceAll({{from, to}}, &texts.schema), 1) << from;
    };
  };
  const auto nodes = [](size_t part, const char* text) -> Change {
    return [part, text](Texts& texts) { texts.nodes[part] = text; };
  };
  const auto edges = [](size_t part, const char* text) -> Change {
    return [part, text](Texts& texts) { texts.edges[part] = text; };
  };
  const auto removed = [](const char* text) -> Change {
    return [text](Texts& texts) { texts.removed = text; };
  };
  const std::string number = ", must be a whole number from 0 to 18446744073709551615";
  const std::pair<Change, std::string> cases[] = {
      {removed(""), "edge 1 of 'ab' is neither in a part nor among the removed edges"},
      {removed("1 2 1 1\n1 2 2 1\n"),
       "edge 0 of 'aa' is neither in a part nor among the removed edges"},
      {removed("0 0 0 2\n1 2 1 1\n1 2 2 1\n1 2 2 1\n"),
       "removed edges: line 4: edge 2 of type 1 is there twice, or not among its 3"},
      {removed("1 2 3 1\n"),
       "removed edges: line 1: edge 3 of type 1 is there twice, or not among its 3"},
      {removed("0\n"), "removed edges: line 1: the target is ''" + number},
      {removed("3 2 1 1\n"),
       "removed edges: line 1: an edge of type 1 from 3 to 2: there are 3 nodes and 3 types"},
      {removed("2 3 1 1\n"),
       "removed edges: line 1: an edge of type 1 from 2 to 3: there are 3 nodes and 3 types"},
      {removed("2 2 1 3\n"),
       "removed edges: line 1: an edge of type 3 from 2 to 2: there are 3 nodes and 3 types"},
      {removed("0 0 1 1\n"),
       "removed edges: line 1: edge type 'ab' joins other types of nodes here than before"},
      {removed("2 2 1 1\n"),
       "removed edges: line 1: edge type 'ab' joins other types of nodes here than before"},
      {removed("0 0 0 2\n1 2 1 1 0.5\n1 2 2 1\n"),
       "removed edges: line 2: 1 attributes, other rows of this type have 0"},
      {nodes(0, "x\n"), "nodes of part 0: line 1: the new node id is 'x'" + number},
      {nodes(1, "1 0 1 0\n3 0 1 1\n"),
       "nodes of part 1: line 2: new id 3 of type 0, must be id 2 and a type from 0 to 1"},
      {nodes(1, "1 0 1 0\n2 2 1 1\n"),
       "nodes of part 1: line 2: new id 2 of type 2, must be id 2 and a type from 0 to 1"},
      {[&](Texts& texts) {
         texts.nodes = {"0 0 1 0\n", "1 1 1 0\n2 0 1 1\n"};
       },
       "nodes of part 1: line 2: new id 2 of type 0, must be id 2 and a type from 1 to 1"},
      {nodes(1, "1 0 1 0\n2 0 1 0\n"),
       "nodes of part 1: line 2: node 0 of 'a' is there twice, or not among its 2"},
      {nodes(1, "1 0 1 0\n2 0 1 2\n"),
       "nodes of part 1: line 2: node 2 of 'a' is there twice, or not among its 2"},
      {nodes(1, "1 0 1 0\n2 0 1 1 5\n"),
       "nodes of part 1: line 2: 1 attributes, other rows of this type have 0"},
      {nodes(1, "1 0 1 0\n"), "node 1 of the schema is in no part"},
      // There cannot be more nodes, or edges, than bytes.
      {schema("[2, 3]", "[2, 30]"), "node 3 of the schema is in no part"},
      {schema("[2, 3]", "[2, 31]"),
       "the schema has 31 nodes, the files of nodes 30 bytes: nodes are missing"},
      {schema("[4, 5]", "[4, 48]"),
       "edge 1 of 'aa' is neither in a part nor among the removed edges"},
      {schema("[4, 5]", "[4, 49]"),
       "the schema has 49 edges, the files of edges 48 bytes: edges are missing"},
      {edges(0, "2 0 1 2 0\n"), "edges of part 0: line 1: the edge type is ''" + number},
      {edges(0, "1 0 1 2 0 1\n"),
       "edges of part 0: line 1: the edge from 1 to 2 has new ids 1 and 0, the nodes have 2 and 0, "
       "and the target must be in this part"},
      {edges(0, "2 1 1 2 0 1\n"),
       "edges of part 0: line 1: the edge from 1 to 2 has new ids 2 and 1, the nodes have 2 and 0, "
       "and the target must be in this part"},
      {[](Texts& texts) { std::swap(texts.edges[0], texts.edges[1]); },
       "edges of part 0: line 1: the edge from 2 to 1 has new ids 0 and 2, the nodes have 0 and 2, "
       "and the target must be in this part"},
      {schema("\"aa\"", "\"a:aa:b\""),
       "edge type 'a:aa:b' does not name the types that its edges join"},
      {schema("\"aa\"", "\"b:aa:a\""),
       "edge type 'b:aa:a' does not name the types that its edges join"},
      {schema("\"aa\"", "\"a:aa\""),
       "edge type 'a:aa' does not name the types that its edges join"},
      {schema("[4, 5]", "[4, 5], \"none\": [5, 5]"),
       "edge type 'none' has no edges: name it source:relation:target"},
      {[](Texts& texts) { texts.attributes = DType::kInt16; },
       "attributes can be float32, float64, int32 or int64, no other type"},
  };
  for (const auto& [change, what] : cases) {
    Texts texts;
    change(texts);
    EXPECT_EQ(texts.Convert().status(), absl::InvalidArgumentError(what));
  }
}

TEST(ParmetisConverterTest, NamesAttributesAndFilesAreChecked) {
  Texts named;
  absl::StrReplaceAll({{"[4, 5]", "[4, 5], \"a:none:b\": [5, 5]"}, {"\"aa\"", "\"a:aa:a\""}},
                      &named.schema);
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter by_name, named.Convert());
  EXPECT_EQ(by_name.Json("g", "metis").edge_map[2].name, "a:aa:a");
  EXPECT_EQ(by_name.Json("g", "metis").edge_map[3].name, "a:none:b");

  Texts texts;
  texts.nodes[0] = "0 1 1 0 x\n";
  PH_ASSERT_OK_AND_ASSIGN(const ParmetisConverter converter, texts.Convert());
  PH_ASSERT_OK_AND_ASSIGN(const ConvertedPart part, converter.PartOf(0));
  StringSink rows;
  EXPECT_EQ(
      WriteRows(converter.NodeFeatures(part)[0], rows),
      absl::InvalidArgumentError("attribute 'x' of row 0 of 'b/feat' is no number of its type"));
  // As many files of nodes as of edges, and attributes of either that are of another type.
  ParmetisFiles files;
  PH_ASSERT_OK_AND_ASSIGN(files.schema, ReadParmetisSchema(texts.schema));
  for (const auto& [num_nodes, num_edges] :
       std::vector<std::pair<size_t, size_t>>{{0, 0}, {2, 1}, {65537, 65537}}) {
    files.nodes.resize(num_nodes);
    files.edges.resize(num_edges);
    EXPECT_EQ(ParmetisConverter::Create(files).status(),
              absl::InvalidArgumentError(absl::StrCat(num_nodes, " files of nodes and ", num_edges,
                                                      " of edges: must be 1 to 65536 each")));
  }
  files.nodes.resize(1);
  files.edges.resize(1);
  files.edge_attributes = DType::kFloat16;
  EXPECT_EQ(ParmetisConverter::Create(files).status(),
            absl::InvalidArgumentError(
                "attributes can be float32, float64, int32 or int64, no other type"));
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
