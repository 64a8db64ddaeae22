#include "service/wings/tfgnn/graph_sets.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/wings/tfgnn/graph_schema_file.h"
#include "tests/support/status_matchers.h"
#include "tests/tfgnn/random_schemas.h"

namespace packhouse::tfgnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<GraphSets> SetsOf(const std::string& text) { return GraphSets::FromTfgnnFile(text); }

std::string Described(const GraphSchema& schema, size_t t) {
  const TensorSpec& tensor = schema.tensors()[t];
  return absl::StrCat(
      tensor.name, " ", DTypeName(tensor.dtype), "[", absl::StrJoin(tensor.row_shape, ","), "] ",
      schema.sizes().name(tensor.component),
      tensor.index_into ? absl::StrCat(" -> ", schema.sizes().name(*tensor.index_into)) : "");
}

TEST(GraphSetsTest, FollowsTheConvention) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, SetsOf(R"(
      context { features { key: "y" value { dtype: DT_FLOAT } } }
      node_sets { key: "b" value { features { key: "r" value { dtype: DT_DOUBLE
          shape { dim { size: -1 } dim { size: 2 } dim { size: -1 } dim { size: 3 } } } } } }
      node_sets { key: "a" value { features { key: "s" value { dtype: DT_STRING
          shape { dim { size: 3 } } } } } }
      edge_sets { key: "e" value { source: "a" target: "b"
          features { key: "source" value { dtype: DT_INT8 } } } }
      edge_sets { key: "d" value { source: "b" target: "b" } })"));
  const GraphSchema& schema = sets.schema();
  EXPECT_THAT(schema.sizes().components(),
              ElementsAre("a", "b", "d", "e", "a.s.bytes", "b.r.d3", "b.r"));
  std::vector<std::string> tensors;
  for (size_t t = 0; t < schema.tensors().size(); ++t) tensors.push_back(Described(schema, t));
  EXPECT_THAT(tensors, ElementsAre("y float32[] graphs",           //
                                   "a.s.bytes.d2 int32[3] a",      //
                                   "a.s.bytes uint8[] a.s.bytes",  //
                                   "b.r.d1 int32[] b",             //
                                   "b.r.d3 int32[2] b.r.d3",       //
                                   "b.r float64[3] b.r",           //
                                   "d.source int32[] d -> b",      //
                                   "d.target int32[] d -> b",      //
                                   "e.#source int32[] e -> a",     //
                                   "e.#target int32[] e -> b",     //
                                   "e.source int8[] e"));
}

TEST(GraphSetsTest, TheWayBackGivesTheSameSchema) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const tensorflow_gnn::GraphSchema schema = RandomTfgnnSchema(random);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromTfgnn(schema));
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets again, GraphSets::FromTfgnnFile(sets.ToTfgnnText()));
    EXPECT_EQ(again.ToTfgnnText(), sets.ToTfgnnText());
    ASSERT_EQ(again.schema().sizes(), sets.schema().sizes());
    ASSERT_EQ(again.schema().tensors().size(), sets.schema().tensors().size());
    for (size_t t = 0; t < sets.schema().tensors().size(); ++t) {
      EXPECT_EQ(Described(again.schema(), t), Described(sets.schema(), t));
    }
    // From the packhouse schema alone the roles are the same.
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets from_schema, GraphSets::FromSchema(sets.schema()));
    EXPECT_EQ(from_schema.node_sets(), sets.node_sets());
    EXPECT_EQ(from_schema.edge_sets(), sets.edge_sets());
    EXPECT_EQ(from_schema.context(), sets.context());
  }
}

TEST(GraphSetsTest, NamesWhatCannotBe) {
  const auto expect_refused = [](const std::string& text, const std::string& why) {
    EXPECT_THAT(SetsOf(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  expect_refused("node_sets { key: 'a' value { features { key: 'x' value { dtype: DT_INT4 } } } }",
                 "node set 'a': feature 'x': packhouse has no dtype DT_INT4");
  expect_refused(
      "node_sets { key: 'a' value { features { key: 'x' value { dtype: DT_INT8 shape { dim { size: "
      "0 } } } } } }",
      "a dimension of 0");
  expect_refused(
      "node_sets { key: 'a' value { } } edge_sets { key: 'a' value { source: 'a' target: "
      "'a' } }",
      "a node set and an edge set 'a'");
  expect_refused("node_sets { key: 'a b' value { } }", "component name 'a b'");
  expect_refused("node_sets { key: 'graphs' value { } }", "'graphs' is implied");
  // The key `nodes/a.b.x` would belong to either.
  expect_refused(
      "node_sets { key: 'a' value { features { key: 'b.x' value { dtype: DT_INT8 } } } }"
      "node_sets { key: 'a.b' value { features { key: 'x' value { dtype: DT_INT8 } } } }",
      "tensor 'a.b.x'");
  // By its name it would be of strings.
  expect_refused(
      "node_sets { key: 'a' value { features { key: 'x.bytes' value { dtype: DT_UINT8 shape { dim "
      "{ "
      "size: -1 } } } } } }",
      "feature 'x.bytes'");
}

TEST(GraphSetsTest, ReadsTheRolesOfOtherSchemas) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeSchema sizes,
                          SizeSchema::Create({"nodes", "edges", "other", "tri"}));
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          GraphSchema::Create(sizes, {{"x", DType::kFloat32, {4}, 0, {}, ""},
                                                      {"senders", DType::kInt64, {}, 1, 0, ""},
                                                      {"receivers", DType::kInt64, {}, 1, 0, ""},
                                                      {"graphs.y", DType::kInt8, {}, 4, {}, ""},
                                                      {"tri.z", DType::kInt8, {}, 3, {}, ""}}));
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromSchema(schema));
  ASSERT_EQ(sets.node_sets().size(), 3U);
  EXPECT_EQ(sets.node_sets()[0].features[0].name, "x");
  ASSERT_EQ(sets.edge_sets().size(), 1U);
  EXPECT_EQ(sets.edge_sets()[0].source, 1U);
  EXPECT_EQ(sets.edge_sets()[0].target, 2U);
  EXPECT_EQ(sets.context().features[0].name, "y");

  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema rows_of_nobody,
                          GraphSchema::Create(sizes, {{"tri", DType::kInt8, {}, 3, {}, ""}}));
  EXPECT_THAT(GraphSets::FromSchema(rows_of_nobody),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'tri': its rows belong to no node set")));
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema twice,
                          GraphSchema::Create(sizes, {{"x", DType::kInt8, {}, 0, {}, ""},
                                                      {"nodes.x", DType::kInt8, {}, 0, {}, ""}}));
  EXPECT_THAT(GraphSets::FromSchema(twice),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("means the same as")));
}

// One name for a dense and a ragged feature: of the context, a node set or an edge set.
TEST(GraphSetsTest, TwoFeaturesOfOneNameAreRefusedInEachSet) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, SetsOf(R"(
      context { features { key: "s" value { dtype: DT_STRING } } }
      node_sets { key: "a" value { features { key: "s" value { dtype: DT_STRING } } } }
      edge_sets { key: "e" value { source: "a" target: "a"
          features { key: "s" value { dtype: DT_STRING } } } })"));
  const SizeSchema& sizes = sets.schema().sizes();
  const std::vector<std::pair<std::string, size_t>> of_sets = {
      {"graphs", sizes.num_components()}, {"a", *sizes.IndexOf("a")}, {"e", *sizes.IndexOf("e")}};
  for (const auto& [set, component] : of_sets) {
    std::vector<TensorSpec> tensors(sets.schema().tensors().begin(), sets.schema().tensors().end());
    tensors.push_back({set + ".s", DType::kInt8, {}, component, {}, ""});
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                            GraphSchema::Create(sizes, std::move(tensors)));
    EXPECT_THAT(GraphSets::FromSchema(schema),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("has two features 's'")))
        << set;
  }
}

TEST(ParseGraphSchemaTest, TextErrorsHaveAPlace) {
  EXPECT_THAT(ParseGraphSchema("node_sets {\n  kye: 'a' }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2, column")));
  EXPECT_THAT(ParseGraphSchema("# nothing\n"), IsOk());
  EXPECT_THAT(ParseGraphSchema("node_sets < key: 'a' 'b' value <> >"), IsOk());
}

TEST(CheckRequiredFeaturesTest, ZeroStandsForAnyDimension) {
  const auto schema = [](const std::string& feature) {
    return ParseGraphSchema("node_sets { key: 'a' value { features { key: 'x' value { " + feature +
                            " } } } }")
        .value();
  };
  const auto actual = schema("dtype: DT_FLOAT shape { dim { size: 3 } }");
  EXPECT_THAT(CheckRequiredFeatures(schema("dtype: DT_FLOAT shape { dim { size: 0 } }"), actual),
              IsOk());
  EXPECT_THAT(CheckRequiredFeatures(schema(""), actual), IsOk());
  for (const std::string wrong : {"dtype: DT_INT32", "shape { dim { size: 4 } }", "shape { }"}) {
    EXPECT_THAT(
        CheckRequiredFeatures(schema(wrong), actual),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("node set 'a': feature 'x'")))
        << wrong;
  }
  EXPECT_THAT(CheckRequiredFeatures(actual, tensorflow_gnn::GraphSchema()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("missing")));
}

}  // namespace
}  // namespace packhouse::tfgnn
