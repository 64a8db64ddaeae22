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
  ExpectRefused("nodes/a.#size", "int64_list { value: -1 }", "value -1 is not in [0, 4294967295]");
  ExpectRefused("nodes/a.n", "int64_list { value: [1, 65536] }",
                "value 65536 at position 1 is not in [0, 65535], the range of uint16");
  ExpectRefused("nodes/a.n", "int64_list { value: [-1, 2] }",
                "value -1 at position 0 is not in [0, 65535], the range of uint16");
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
  ExpectRefused("edges/e.m", "int64_list { value: 7 }",
                "1 values; 2 are needed: 2 rows of [], the sum of 'edges/e.m.d2'");
  ExpectRefused("edges/e.m.d1", "", "0 lengths; 1 are needed");
  ExpectRefused("context/split", "", "0 strings; 1 are needed");
  EXPECT_THAT(Append("\x0a\x05zz"), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "record 17: its 4 bytes are no tf.Example"));
  EXPECT_EQ(rows_.num_graphs(), 0U);
}

TEST_F(ExampleDecoderTest, ARefusedRecordLeavesNothing) {
  ASSERT_THAT(Append(Record()), IsOk());
  const std::string before(Column("a.x"));
  EXPECT_THAT(Append(Record(Change("edges/e.m", "int64_list { value: 7 }"))),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_EQ(Column("a.x"), before);
  EXPECT_EQ(rows_.num_graphs(), 1U);
  ASSERT_THAT(Append(Record()), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows_.Build(0));
  EXPECT_EQ(chunk.num_graphs(), 2U);
  EXPECT_EQ(rows_.num_graphs(), 0U);
}

TEST_F(ExampleDecoderTest, WhatIsAbsentIsEmpty) {
  tensorflow::Example example;
  (*example.mutable_features()->mutable_feature())["context/split"].mutable_bytes_list()->add_value(
      "x");
  (*example.mutable_features()->mutable_feature())["other"].mutable_int64_list()->add_value(1);
  ASSERT_THAT(Append(example.SerializeAsString()), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk, rows_.Build(0));
  EXPECT_EQ(chunk.count(0, *sets_.schema().sizes().IndexOf("a")), 0U);
}

TEST_F(ExampleDecoderTest, MemoryIsBounded) {
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphSets sets,
      GraphSets::FromTfgnnFile("node_sets { key: 'a' value { features { key: 'r' value { dtype: "
                               "DT_INT64 shape { dim { size: -1 } } } } } }"));
  PH_ASSERT_OK_AND_ASSIGN(ExampleDecoder decoder,
                          ExampleDecoder::Create(sets, {.prefix = "", .max_graph_bytes = 4000}));
  RowBuilder rows(sets.shared_schema());
  const auto record_of = [](int64_t size) {
    tensorflow::Example example;
    (*example.mutable_features()->mutable_feature())["nodes/a.#size"]
        .mutable_int64_list()
        ->add_value(size);
    return example.SerializeAsString();
  };
  EXPECT_THAT(decoder.Append(record_of(1000), 0, rows), IsOk());
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
  for (const int32_t length : {-1, 3, 5}) {
    PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes, SizeTable::WithConsecutiveIds(1, 2, {1, 4}, 9));
    PH_ASSERT_OK_AND_ASSIGN(
        const GraphChunk chunk,
        GraphChunk::Create(
            &sets.schema(), std::move(sizes),
            {absl::string_view(reinterpret_cast<const char*>(&length), sizeof(length)), "abcd"},
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
