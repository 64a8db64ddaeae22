#include "service/wings/tfgnn/example_decoder.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/example_encoder.h"
#include "tensorflow/core/example/example.pb.h"
#include "tests/support/status_matchers.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::HasSubstr;

constexpr char kSchema[] = R"(
  context { features { key: "split" value { dtype: DT_STRING } } }
  node_sets { key: "a" value {
    features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "n" value { dtype: DT_UINT16 } } } }
  edge_sets { key: "e" value { source: "a" target: "a"
    features { key: "m" value { dtype: DT_INT32 shape { dim { size: -1 } dim { size: -1 } } } } } }
)";

// A record of two nodes and one edge; tests change one feature of it.
constexpr char kRecord[] = R"(
  feature { key: "context/split" value { bytes_list { value: "train" } } }
  feature { key: "nodes/a.#size" value { int64_list { value: 2 } } }
  feature { key: "nodes/a.x" value { float_list { value: [1, 2, 3, 4] } } }
  feature { key: "nodes/a.tags" value { bytes_list { value: ["u", "", "vw"] } } }
  feature { key: "nodes/a.tags.d1" value { int64_list { value: [1, 2] } } }
  feature { key: "nodes/a.n" value { int64_list { value: [0, 65535] } } }
  feature { key: "edges/e.#size" value { int64_list { value: 1 } } }
  feature { key: "edges/e.#source" value { int64_list { value: 1 } } }
  feature { key: "edges/e.#target" value { int64_list { value: 0 } } }
  feature { key: "edges/e.m" value { int64_list { value: [7, -8] } } }
  feature { key: "edges/e.m.d1" value { int64_list { value: 3 } } }
  feature { key: "edges/e.m.d2" value { int64_list { value: [0, 2, 0] } } }
)";

std::string Record(const std::string& changes = "") {
  tensorflow::Features features;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(absl::StrCat(kRecord, changes), &features));
  tensorflow::Example example;
  *example.mutable_features() = features;
  return example.SerializeAsString();
}

std::string Change(const std::string& key, const std::string& value) {
  return absl::StrCat("feature { key: '", key, "' value { ", value, " } }");
}

// A field of fewer than 128 bytes.
std::string Field(int field, absl::string_view bytes) {
  const char header[] = {static_cast<char>(field << 3 | 2), static_cast<char>(bytes.size())};
  return absl::StrCat(absl::string_view(header, 2), bytes);
}

// The record, and at its end a key with these bytes as its Feature.
std::string RecordAnd(const std::string& key, const std::string& feature) {
  return Record() + Field(1, Field(1, Field(1, key) + Field(2, feature)));
}

class ExampleDecoderTest : public testing::Test {
 protected:
  ExampleDecoderTest()
      : sets_(GraphSets::FromTfgnnFile(kSchema).value()),
        decoder_(ExampleDecoder::Create(sets_).value()),
        rows_(sets_.shared_schema()) {}

  absl::Status Append(const std::string& record) { return decoder_.Append(record, 17, rows_); }
  void ExpectRefused(const std::string& key, const std::string& value, const std::string& why) {
    EXPECT_THAT(Append(Record(Change(key, value))),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("record 17: key '", key, "': ", why)));
  }
  absl::string_view Column(const std::string& name) {
    return rows_.column(*sets_.schema().TensorIndex(name)).view();
  }
  template <typename T>
  std::vector<T> Numbers(const std::string& name) {
    const absl::string_view bytes = Column(name);
    std::vector<T> numbers(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }

  GraphSets sets_;
  ExampleDecoder decoder_;
  RowBuilder rows_;
};

TEST_F(ExampleDecoderTest, ReadsEveryKindOfFeature) {
  ASSERT_THAT(Append(Record()), IsOk());
  EXPECT_EQ(Numbers<float>("a.x"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Numbers<uint16_t>("a.n"), (std::vector<uint16_t>{0, 65535}));
  EXPECT_EQ(Numbers<int32_t>("a.tags.bytes.d1"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(Numbers<int32_t>("a.tags.bytes.d2"), (std::vector<int32_t>{1, 0, 2}));
  EXPECT_EQ(Column("a.tags.bytes"), "uvw");
  EXPECT_EQ(Column("split.bytes"), "train");
  EXPECT_EQ(Numbers<int32_t>("e.source"), std::vector<int32_t>{1});
  EXPECT_EQ(Numbers<int32_t>("e.m"), (std::vector<int32_t>{7, -8}));
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows_.Build(5));
  EXPECT_EQ(chunk.sizes().graph_id(0), 5U);
  const auto count = [&](const std::string& name) {
    return chunk.count(0, *sets_.schema().sizes().IndexOf(name));
  };
  EXPECT_EQ(count("a"), 2U);
  EXPECT_EQ(count("a.tags.bytes.d2"), 3U);
  EXPECT_EQ(count("a.tags.bytes"), 3U);
  EXPECT_EQ(count("e.m.d2"), 3U);
  EXPECT_EQ(count("e.m"), 2U);
}

TEST_F(ExampleDecoderTest, NamesRecordKeyValueAndBound) {
  ExpectRefused("nodes/a.x", "float_list { value: [1, 2, 3] }",
                "3 values; 4 are needed: 2 rows of [2], the size of node set 'a'");
  ExpectRefused("nodes/a.x", "int64_list { value: [1, 2, 3, 4] }",
                "a list of int64s; the schema wants floats");
  ExpectRefused("nodes/a.#size", "int64_list { value: [1, 1] }",
                "2 values; a record has one graph, so a size has one value");
  ExpectRefused("edges/e.#size", "int64_list { value: [1, 1] }",
                "2 values; a record has one graph, so a size has one value");
  ExpectRefused("nodes/a.#size", "int64_list { value: -1 }", "value -1 is not in [0, 4294967295]");
  ExpectRefused("nodes/a.#size", "int64_list { value: 4294967296 }",
                "value 4294967296 is not in [0, 4294967295]");
  ExpectRefused("nodes/a.n", "int64_list { value: [1, 65536] }",
                "value 65536 at position 1 is not in [0, 65535], the range of uint16");
  ExpectRefused("nodes/a.n", "int64_list { value: [-1, 2] }",
                "value -1 at position 0 is not in [0, 65535], the range of uint16");
  ExpectRefused("nodes/a.n", "int64_list { value: [65537, -1] }",
                "value 65537 at position 0 is not in [0, 65535], the range of uint16");
  ExpectRefused("edges/e.m", "int64_list { value: [7, 2147483648] }",
                "value 2147483648 at position 1 is not in [-2147483648, 2147483647], the range of "
                "int32");
  ExpectRefused("nodes/a.n", "bytes_list { value: 'u' }",
                "a list of bytes; the schema wants int64s");
  ExpectRefused("nodes/a.tags", "float_list { value: 1 }",
                "a list of floats; the schema wants bytes");
  ExpectRefused("edges/e.#source", "int64_list { value: 2 }",
                "value 2 at position 0 is not in [0, 2), the rows of node set 'a'");
  ExpectRefused("edges/e.#target", "int64_list { value: -1 }",
                "value -1 at position 0 is not in [0, 2), the rows of node set 'a'");
  ExpectRefused("edges/e.#target", "int64_list { value: [0, 0] }",
                "2 values; the size of edge set 'e' is 1");
  ExpectRefused("nodes/a.tags", "bytes_list { value: 'u' }", "1 strings; 3 are needed");
  ExpectRefused("nodes/a.tags.d1", "int64_list { value: 3 }", "1 lengths; 2 are needed");
  ExpectRefused("nodes/a.tags.d1", "int64_list { value: [4, -1] }",
                "value -1 at position 1 is not in [0, 2147483647]");
  ExpectRefused("nodes/a.tags.d1", "int64_list { value: [2147483648, 0] }",
                "value 2147483648 at position 0 is not in [0, 2147483647]");
  ExpectRefused("edges/e.m.d2", "int64_list { value: [2147483647, 2147483647, 2] }",
                "the sum 4294967296 is above 4294967295");
  ExpectRefused("edges/e.m", "int64_list { value: 7 }",
                "1 values; 2 are needed: 2 rows of [], the sum of 'edges/e.m.d2'");
  ExpectRefused("edges/e.m.d1", "", "0 lengths; 1 are needed");
  ExpectRefused("context/split", "", "0 strings; 1 are needed");
  EXPECT_THAT(Append("\x0a\x05zz"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "record 17: its 4 bytes are no tf.Example"));
  EXPECT_EQ(rows_.num_graphs(), 0U);
}

// As protobuf's parser refuses it, also where nobody asks for the key.
TEST_F(ExampleDecoderTest, AMalformedFeatureIsRefusedUnderEachKey) {
  for (const std::string& feature :
       {Field(1, Field(1, "u") + "\x0a"), Field(2, Field(1, "12345")), Field(3, Field(1, "\x80")),
        std::string("\x1a\x05"), std::string("\x0b")}) {
    EXPECT_THAT(Append(RecordAnd("nodes/a.x", feature)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "record 17: key 'nodes/a.x': its Feature is malformed"));
    const std::string other = RecordAnd("other", feature);
    EXPECT_THAT(Append(other), StatusIs(absl::StatusCode::kInvalidArgument,
                                        absl::StrCat("record 17: its ", other.size(),
                                                     " bytes are no tf.Example")));
  }
  const std::string long_varint = std::string(10, '\xff') + '\x01';
  for (const std::string key : {"nodes/a.#size", "edges/e.#source", "edges/e.m.d1", "nodes/a.n"}) {
    const std::string before = key == "nodes/a.n" ? "\x01" : "";
    EXPECT_THAT(
        Append(RecordAnd(key, Field(3, Field(1, before + long_varint)))),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 absl::StrCat("record 17: key '", key, "': a varint of more than ten bytes")));
  }
}

TEST_F(ExampleDecoderTest, ARefusedRecordLeavesNothing) {
  ASSERT_THAT(Append(Record()), IsOk());
  const std::string before(Column("a.x"));
  EXPECT_THAT(Append(Record(Change("edges/e.m", "int64_list { value: 7 }"))),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_EQ(Column("a.x"), before);
  EXPECT_EQ(rows_.num_graphs(), 1U);
  ASSERT_THAT(Append(Record()), IsOk());
  // Nor does a graph that has not ended.
  rows_.counts()[0] = 9;
  rows_.column(0).Append("unfinished");
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows_.Build(0));
  EXPECT_EQ(chunk.num_graphs(), 2U);
  EXPECT_EQ(rows_.num_graphs(), 0U);
  EXPECT_EQ(rows_.num_bytes(), 0U);
  for (int i = 0; i < 2; ++i) ASSERT_THAT(Append(Record()), IsOk());
  EXPECT_THAT(rows_.Build(~uint64_t{0}), StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
}

// Also after records that had it. A list of no strings is empty, whatever the schema wants.
TEST_F(ExampleDecoderTest, WhatIsAbsentIsEmpty) {
  ASSERT_THAT(Append(Record()), IsOk());
  EXPECT_FALSE(Append(Record(Change("edges/e.m", "int64_list { value: 7 }"))).ok());
  tensorflow::Example example;
  (*example.mutable_features()->mutable_feature())["context/split"].mutable_bytes_list()->add_value(
      "x");
  (*example.mutable_features()->mutable_feature())["other"].mutable_int64_list()->add_value(1);
  const std::string no_strings = Field(1, "\x10\x05");
  ASSERT_THAT(Append(example.SerializeAsString() +
                     Field(1, Field(1, Field(1, "nodes/a.x") + Field(2, no_strings)))),
              IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows_.Build(0));
  ASSERT_EQ(chunk.num_graphs(), 2U);
  for (size_t k = 0; k < sets_.schema().num_components(); ++k) {
    const absl::string_view name = sets_.schema().sizes().name(k);
    EXPECT_EQ(chunk.count(1, k), name == "split.bytes" ? 1U : 0U) << name;
  }
}

TEST(ExampleDecoderTypesTest, BoolsContextsAndIndicesHaveTheirBounds) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnnFile(R"(
      context { features { key: "y" value { dtype: DT_FLOAT } }
                features { key: "b" value { dtype: DT_BOOL shape { dim { size: 4 } } } } }
      node_sets { key: "a" value { } }
      edge_sets { key: "e" value { source: "a" target: "a" } })"));
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder, ExampleDecoder::Create(sets));
  RowBuilder rows(sets.shared_schema());
  const auto append = [&](int64_t source, int num_y) {
    tensorflow::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    const auto add = [&](const std::string& key, std::vector<int64_t> values) {
      for (const int64_t value : values) features[key].mutable_int64_list()->add_value(value);
    };
    for (int i = 0; i < num_y; ++i) features["context/y"].mutable_float_list()->add_value(1);
    add("context/b", {0, 2, -1, 256});
    add("nodes/a.#size", {4294967295});
    add("edges/e.#size", {1});
    add("edges/e.#source", {source});
    add("edges/e.#target", {0});
    return decoder.Append(example.SerializeAsString(), 3, rows);
  };
  const auto refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, "record 3: key " + why);
  };
  EXPECT_THAT(append(2147483647, 1), IsOk());
  EXPECT_EQ(rows.column(*sets.schema().TensorIndex("b")).view(), absl::string_view("\0\1\1\1", 4));
  EXPECT_THAT(append(2147483648, 1),
              refused("'edges/e.#source': value 2147483648 at position 0 is not in [0, "
                      "2147483648), the rows of node set 'a'"));
  EXPECT_THAT(append(0, 0), refused("'context/y': 0 values; 1 are needed: 1 rows of [], the size "
                                    "of the context"));
}

// Of all columns of one graph together.
TEST_F(ExampleDecoderTest, ABoundIsOfAllRowsOfAGraph) {
  ASSERT_THAT(Append(Record()), IsOk());
  size_t bytes = 0;
  for (size_t t = 0; t < sets_.schema().tensors().size(); ++t) bytes += rows_.column(t).size();
  EXPECT_EQ(rows_.num_bytes(), bytes + sizeof(uint32_t) * sets_.schema().num_components());
  decoder_.set_max_graph_bytes(bytes);
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Append(Record()), IsOk());
  decoder_.set_max_graph_bytes(bytes - 1);
  EXPECT_THAT(Append(Record()), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr(absl::StrCat("more than ", bytes - 1))));
  // Whatever the bound is, the key that exceeds it is named, and nothing stays.
  const uint64_t before = rows_.num_bytes();
  std::vector<std::string> keys;
  for (size_t bound = 0; bound < bytes; ++bound) {
    decoder_.set_max_graph_bytes(bound);
    const std::string message(Append(Record()).message());
    const size_t begin = message.find('\'') + 1;
    const std::string key = message.substr(begin, message.find('\'', begin) - begin);
    EXPECT_THAT(message,
                testing::EndsWith(absl::StrCat(
                    "key '", key, "': the graph's rows would take more than ", bound, " bytes")));
    if (keys.empty() || keys.back() != key) keys.push_back(key);
    EXPECT_EQ(rows_.num_bytes(), before);
  }
  EXPECT_THAT(keys, testing::ElementsAre("edges/e.#source", "edges/e.#target", "context/split",
                                         "nodes/a.n", "nodes/a.tags.d1", "nodes/a.tags",
                                         "nodes/a.x", "edges/e.m.d1", "edges/e.m.d2", "edges/e.m"));
}

TEST_F(ExampleDecoderTest, MemoryIsBounded) {
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSets sets,
      GraphSets::FromTfgnnFile("node_sets { key: 'a' value { features { key: 'r' value { dtype: "
                               "DT_INT64 shape { dim { size: -1 } } } } } }"));
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder,
                          ExampleDecoder::Create(sets, {.prefix = "", .max_graph_bytes = 4000}));
  RowBuilder rows(sets.shared_schema());
  const auto record_of = [](int64_t size, int num_lengths = 0) {
    tensorflow::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    features["nodes/a.#size"].mutable_int64_list()->add_value(size);
    auto& lengths = *features["nodes/a.r.d1"].mutable_int64_list();
    for (int i = 0; i < num_lengths; ++i) lengths.add_value(1);
    return example.SerializeAsString();
  };
  // Whose lengths are where those of the next record come.
  EXPECT_THAT(decoder.Append(record_of(1000, 1000), 0, rows),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 values; 1000 are needed")));
  for (const size_t graphs : {1, 2}) {
    EXPECT_THAT(decoder.Append(record_of(1000), 0, rows), IsOk());
    EXPECT_EQ(rows.column(*sets.schema().TensorIndex("a.r.d1")).view(),
              std::string(graphs * 4000, '\0'));
  }
  for (const int64_t size : {int64_t{1001}, int64_t{4294967295}}) {
    EXPECT_THAT(decoder.Append(record_of(size), 0, rows),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more than 4000 bytes")));
  }
}

TEST_F(ExampleDecoderTest, SchemasThatNoRecordCanFillAreRefused) {
  const auto create = [](std::vector<TensorSpec> tensors) {
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::NodesAndEdges(), std::move(tensors)).value();
    const absl::StatusOr<GraphSets> sets = GraphSets::FromSchema(schema);
    EXPECT_THAT(sets, IsOk());
    return ExampleDecoder::Create(*sets).status();
  };
  EXPECT_THAT(create({{"edge_index", DType::kInt64, {2}, 1, 0, ""}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'edge_index'")));
  EXPECT_THAT(create({{"edge_index", DType::kInt32, {2}, 1, 0, ""}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'edge_index'")));
  for (const std::string wrong : {"source", "target"}) {
    const auto dtype = [&](const char* end) {
      return wrong == end ? DType::kInt64 : DType::kInt32;
    };
    EXPECT_THAT(create({{"source", dtype("source"), {}, 1, 0, ""},
                        {"target", dtype("target"), {}, 1, 0, ""}}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("'", wrong, "': the ends of edges"))));
  }
  EXPECT_THAT(create({{"x", DType::kInt64, {}, 0, 1, ""}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no end of edges")));
  EXPECT_THAT(create({{"x", DType::kInt64, {2}, 0, {}, "", Layout::kRowsLast}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows last")));
  // Of nodes, of edges, and of the context.
  for (const auto& [component, set] :
       {std::pair(0, "nodes."), std::pair(1, "edges."), std::pair(3, "")}) {
    const std::string name = absl::StrCat(set, "f");
    const GraphSchema schema =
        GraphSchema::Create(
            SizeSchema::Create({"nodes", "edges", name}).value(),
            {{"edges.source", DType::kInt32, {}, 1, 0, ""},
             {"edges.target", DType::kInt32, {}, 1, 0, ""},
             {name + ".d1", DType::kInt64, {}, static_cast<size_t>(component), {}, ""},
             {name, DType::kFloat32, {}, 2, {}, ""}})
            .value();
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromSchema(schema));
    EXPECT_THAT(ExampleDecoder::Create(sets).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("int32, not int64")));
  }
}

// A data set of PyG's or jraph's can be exported: ends in one tensor, in either layout.
TEST(ExampleEncoderTest, EndsMayBeInOneTensor) {
  for (const Layout layout : {Layout::kRowsFirst, Layout::kRowsLast}) {
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::NodesAndEdges(),
                            {{"edge_index", DType::kInt64, {2}, 1, 0, "", layout}})
            .value();
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromSchema(schema));
    const int64_t ends[] = {0, 1, 2, 2, 1, 0};
    PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes, SizeTable::WithConsecutiveIds(1, 2, {3, 3}, 0));
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk chunk,
        GraphChunk::Create(&sets.schema(), std::move(sizes),
                           {absl::string_view(reinterpret_cast<const char*>(ends), sizeof(ends))},
                           nullptr));
    std::string record;
    ASSERT_THAT(ExampleEncoder(sets).Append(chunk, 0, &record), IsOk());
    tensorflow::Example example;
    ASSERT_TRUE(example.ParseFromString(record));
    const auto list = [&](const std::string& key) {
      const auto& values = example.features().feature().at(key).int64_list().value();
      return std::vector<int64_t>(values.begin(), values.end());
    };
    const bool is_first = layout == Layout::kRowsFirst;
    EXPECT_EQ(list("edges/edges.#source"),
              is_first ? (std::vector<int64_t>{0, 2, 1}) : (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(list("edges/edges.#target"),
              is_first ? (std::vector<int64_t>{1, 2, 0}) : (std::vector<int64_t>{2, 1, 0}));
  }
}

TEST(ExampleEncoderTest, LengthsThatDisagreeAreNamed) {
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSets sets,
      GraphSets::FromTfgnnFile(
          "node_sets { key: 'a' value { features { key: 's' value { dtype: DT_STRING } } } }"));
  for (const std::vector<int32_t>& lengths :
       std::vector<std::vector<int32_t>>{{-1}, {3}, {5}, {2, 3}, {-1, 5}, {5, -1}}) {
    const auto n = static_cast<uint32_t>(lengths.size());
    PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes, SizeTable::WithConsecutiveIds(1, 2, {n, 4}, 9));
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk chunk,
        GraphChunk::Create(
            &sets.schema(), std::move(sizes),
            {absl::string_view(reinterpret_cast<const char*>(lengths.data()), n * sizeof(int32_t)),
             "abcd"},
            nullptr));
    std::string record = "before";
    EXPECT_THAT(ExampleEncoder(sets).Append(chunk, 0, &record),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         "graph 9: tensor 'a.s.bytes.d1': its lengths are not the 4 rows of "
                         "'a.s.bytes'"));
    EXPECT_EQ(record, "before");
  }
}

// A schema that is not TF-GNN's own: one of two lists with one key would be lost.
TEST(ExampleEncoderTest, AKeyThatIsThereTwiceIsNamed) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeSchema components, SizeSchema::Create({"a"}));
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSchema schema,
      GraphSchema::Create(components, {{"a.#size", DType::kInt8, {}, 0, {}, ""}}));
  const absl::StatusOr<GraphSets> sets = GraphSets::FromSchema(schema);
  PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes, SizeTable::WithConsecutiveIds(1, 1, {1}, 9));
  ASSERT_TRUE(sets.ok()) << sets.status();
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk,
                          GraphChunk::Create(&sets->schema(), std::move(sizes), {"x"}, nullptr));
  std::string record = "before";
  EXPECT_THAT(ExampleEncoder(*sets).Append(chunk, 0, &record),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("key 'nodes/a.#size'")));
  EXPECT_EQ(record, "before");
}

}  // namespace
}  // namespace packhouse::tfgnn
