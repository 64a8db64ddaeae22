#include "service/server/calls/wire_graphs.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/limits.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
Message FromText(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

TEST(GraphSchemaFromWireTest, RoundTripsRandomSchemas) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const GraphSchema schema = RandomSchema(random);
    v1::GraphSchema wire;
    GraphSchemaToWire(schema, wire);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema back, GraphSchemaFromWire(true, wire));
    v1::GraphSchema again;
    GraphSchemaToWire(back, again);
    EXPECT_EQ(wire.SerializeAsString(), again.SerializeAsString()) << "seed=" << seed;
  }
}

TEST(GraphSchemaFromWireTest, ManyTensorsAreRefusedBeforeTheyAreRead) {
  v1::GraphSchema wire;
  wire.add_components("nodes");
  for (size_t t = 0; t <= GraphSchema::kMaxTensors; ++t) wire.add_tensors();
  EXPECT_THAT(GraphSchemaFromWire(true, wire),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       absl::StrCat("schema: ", GraphSchema::kMaxTensors + 1, " tensors, at most ",
                                    GraphSchema::kMaxTensors)));
}

TEST(GraphSchemaFromWireTest, RowsAreFirstUnlessSaidOtherwise) {
  v1::GraphSchema wire = FromText<v1::GraphSchema>(
      "tensors { name: 'x' dtype: DATA_TYPE_INT8 row_shape: 2 component: 'graphs' }");
  for (const auto& [layout, expected] : {std::pair(v1::LAYOUT_UNSPECIFIED, Layout::kRowsFirst),
                                         {v1::LAYOUT_ROWS_FIRST, Layout::kRowsFirst},
                                         {v1::LAYOUT_ROWS_LAST, Layout::kRowsLast}}) {
    wire.mutable_tensors(0)->set_layout(layout);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, GraphSchemaFromWire(true, wire));
    EXPECT_EQ(schema.tensors()[0].layout, expected);
  }
  wire.mutable_tensors(0)->set_layout(static_cast<v1::Layout>(7));
  EXPECT_THAT(GraphSchemaFromWire(true, wire),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'x'.layout: unknown value 7")));
}

TEST(GraphSchemaFromWireTest, UnsetMeansNodesAndEdges) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, GraphSchemaFromWire(false, {}));
  EXPECT_THAT(schema.sizes().components(), ElementsAre("nodes", "edges"));
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema table, GraphSchemaFromWire(true, {}));
  EXPECT_EQ(table.num_components(), 0U);
}

TEST(GraphSchemaFromWireTest, NamesWhatIsWrong) {
  const auto expect_refused = [](const std::string& text, const std::string& message) {
    EXPECT_THAT(GraphSchemaFromWire(true, FromText<v1::GraphSchema>(text)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect_refused("components: 'a' components: 'a'", "'a' is listed twice");
  expect_refused("components: 'graphs'", "'graphs' is implied");
  expect_refused("components: 'a b'", "'a b' is not 1 to 128 characters");
  expect_refused("tensors { name: 'x' dtype: DATA_TYPE_INT8 component: 'faces' }",
                 "tensor 'x'.component: unknown component 'faces'");
  expect_refused("tensors { name: 'x' dtype: DATA_TYPE_INT8 component: 'graphs' index_into: 'q' }",
                 "tensor 'x'.index_into: unknown component 'q'");
  expect_refused("tensors { name: 'x' component: 'graphs' }", "tensor 'x'.dtype: unknown value 0");
  v1::GraphSchema unknown_dtype = FromText<v1::GraphSchema>("tensors { component: 'graphs' }");
  unknown_dtype.mutable_tensors(0)->set_dtype(static_cast<v1::DataType>(77));
  EXPECT_THAT(GraphSchemaFromWire(true, unknown_dtype),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dtype: unknown value 77")));
}

TEST(GraphChunkFromWireTest, TakesTensorsInAnyOrderOnceEach) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          GraphSchemaFromWire(true, FromText<v1::GraphSchema>(R"(
          components: 'nodes'
          tensors { name: 'a' dtype: DATA_TYPE_INT8 component: 'nodes' }
          tensors { name: 'b' dtype: DATA_TYPE_INT8 component: 'graphs' })")));
  const auto create = [&](const std::string& text) {
    auto wire = std::make_shared<v1::GraphChunk>(FromText<v1::GraphChunk>(text));
    return GraphChunkFromWire(*wire, &schema, 3, wire);
  };
  const std::string sizes = R"(sizes { num_graphs: 1 counts: "\x02\x00\x00\x00" } )";
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk chunk,
      create(sizes + "tensors { name: 'b' data: 'z' } tensors { name: 'a' data: 'xy' }"));
  EXPECT_EQ(chunk.rows(0, 0), "xy");
  EXPECT_EQ(chunk.rows(0, 1), "z");
  EXPECT_EQ(chunk.sizes().graph_id(0), 3U);
  const auto expect_refused = [&](const std::string& tensors, const std::string& message) {
    EXPECT_THAT(create(sizes + tensors),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  expect_refused("tensors { name: 'a' data: 'xy' }", "tensor 'b' is missing");
  expect_refused("tensors { name: 'a' } tensors { name: 'a' }", "tensor 'a' occurs twice");
  expect_refused("tensors { name: 'c' }", "tensor 'c' is not in the schema");
  expect_refused("tensors { name: 'b' data: 'z' } tensors { name: 'a' data: 'x' }",
                 "tensor 'a' has 1 bytes, its 1 graphs have 2 rows of 1 bytes");
}

TEST(CapacitiesFromWireTest, AbsentAndZeroMeanNoLimit) {
  const SizeSchema schema = SizeSchema::NodesAndEdges();
  PH_ASSERT_OK_AND_ASSIGN(
      const std::vector<uint64_t> capacities,
      CapacitiesFromWire(FromText<v1::Limits>("capacities { component: 'edges' } "
                                              "capacities { component: 'graphs' rows: 5 }"),
                         schema));
  EXPECT_THAT(capacities, ElementsAre(kUnlimited, kUnlimited, 5));
  EXPECT_THAT(
      CapacitiesFromWire(FromText<v1::Limits>("capacities { component: 'faces' rows: 1 }"), schema),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unknown component 'faces'")));
  EXPECT_THAT(CapacitiesFromWire(FromText<v1::Limits>("capacities { component: 'nodes' rows: 1 } "
                                                      "capacities { component: 'nodes' rows: 1 }"),
                                 schema),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'nodes' is listed twice")));
}

TEST(EnumsFromWireTest, UnknownValuesAreRefused) {
  EXPECT_THAT(PaddingFromWire(static_cast<v1::Padding>(99)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("padding: unknown value 99")));
  EXPECT_EQ(PaddingFromWire(v1::PADDING_UNSPECIFIED).value(), Padding::kNone);
  google::protobuf::RepeatedField<int> derived;
  derived.Add(v1::DERIVED_TENSOR_MASKS);
  EXPECT_TRUE(DerivedFromWire(derived)->masks);
  derived.Add(0);
  EXPECT_THAT(DerivedFromWire(derived),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("derived: unknown value 0")));
}

}  // namespace
}  // namespace packhouse
