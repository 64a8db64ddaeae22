#include "service/wings/tfgnn/graph_sets.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
  // Of the context and of an edge set, too.
  expect_refused("context { features { key: 'x' value { dtype: DT_INT4 } } }",
                 "context: feature 'x': packhouse has no dtype DT_INT4");
  expect_refused(
      "node_sets { key: 'a' value { } } edge_sets { key: 'e' value { source: 'a' target: 'a' "
      "features { key: 'x' value { dtype: DT_INT4 } } } }",
      "edge set 'e': feature 'x': packhouse has no dtype DT_INT4");
  for (const char* const dim : {"-2", "4294967296"}) {
    expect_refused(
        absl::StrCat("context { features { key: 'x' value { dtype: DT_INT8 shape { dim {"
                     " size: ",
                     dim, " } } } } }"),
        absl::StrCat("a dimension of ", dim, " is neither -1 (ragged) nor from 1 to 2^32 - 1"));
  }
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

// Whose names begin with one another's, or look like those of others.
TEST(GraphSetsTest, NamesThatAreNearOthersKeepTheirMeaning) {
  const std::string text = "features { key: 's' value { dtype: DT_STRING } } ";
  for (const std::string& schema :
       {absl::StrCat("node_sets { key: 'a' value { ", text, "} } node_sets { key: 'a.b' value { ",
                     text, "} }"),
        absl::StrCat("node_sets { key: 'a.b' value { ", text,
                     "} } edge_sets { key: 'a' value { source: 'a.b' target: 'a.b' ", text, "} }"),
        absl::StrCat("node_sets { key: 'a' value { ", text,
                     "} } edge_sets { key: 'a.b' value { source: 'a' target: 'a' ", text, "} }"),
        std::string("node_sets { key: 'a' value { } } edge_sets { key: 'e' value { source: 'a' "
                    "target: 'a' features { key: 'target' value { dtype: DT_INT8 } } } }"),
        std::string("context { features { key: 'x.bytes' value { dtype: DT_INT8 shape { dim { "
                    "size: -1 } } } } features { key: 'y.bytes' value { dtype: DT_UINT8 shape { "
                    "dim { size: -1 } dim { size: 2 } } } } }"),
        std::string("context { features { key: 'x' value { dtype: DT_INT8 shape { dim { size: 1 } "
                    "dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: 1 } dim { size: "
                    "1 } dim { size: 1 } dim { size: 2 } dim { size: -1 } } } } }")}) {
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, SetsOf(schema));
    EXPECT_EQ(sets.ToTfgnnText(), GraphSchemaText(ParseGraphSchema(schema).value()));
  }
}

// The pairs of names that ends have, each perhaps with the component's before it.
TEST(GraphSetsTest, EndsAreScalarsThatPointIntoNodes) {
  using Tensors = std::vector<TensorSpec>;
  const SizeSchema sizes = SizeSchema::Create({"n", "e"}).value();
  const auto sets_of = [&](Tensors tensors) {
    return GraphSets::FromSchema(GraphSchema::Create(sizes, std::move(tensors)).value());
  };
  for (const auto& [source, target] :
       std::vector<std::pair<std::string, std::string>>{{"source", "target"},
                                                        {"senders", "receivers"},
                                                        {"src", "dst"},
                                                        {"row", "col"},
                                                        {"#source", "#target"},
                                                        {"e.row", "e.col"}}) {
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, sets_of({{target, DType::kInt64, {}, 1, 0, ""},
                                                           {source, DType::kInt64, {}, 1, 0, ""}}));
    ASSERT_EQ(sets.edge_sets().size(), 1U) << source;
    EXPECT_EQ(sets.edge_sets()[0].source, 1U);
    EXPECT_EQ(sets.edge_sets()[0].target, 0U);
    EXPECT_TRUE(sets.edge_sets()[0].features.empty());
  }
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets joined,
                          sets_of({{"edge_index", DType::kInt64, {2}, 1, 0, ""}}));
  EXPECT_EQ(joined.edge_sets().size(), 1U);
  // None of these is: features of a node set.
  for (const Tensors& tensors :
       {Tensors{{"source", DType::kInt64, {}, 1, 0, ""}, {"col", DType::kInt64, {}, 1, 0, ""}},
        Tensors{{"source", DType::kInt64, {}, 1, 0, ""}, {"target", DType::kInt64, {}, 1, {}, ""}},
        Tensors{{"source", DType::kInt64, {}, 1, 2, ""}, {"target", DType::kInt64, {}, 1, 2, ""}},
        Tensors{{"source", DType::kInt64, {2}, 1, 0, ""}, {"target", DType::kInt64, {}, 1, 0, ""}},
        Tensors{{"edge_index", DType::kInt64, {3}, 1, 0, ""}},
        Tensors{{"edge_index", DType::kInt64, {}, 1, 0, ""}},
        Tensors{{"edge_index", DType::kInt64, {2}, 1, {}, ""}}}) {
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, sets_of(tensors));
    EXPECT_TRUE(sets.edge_sets().empty()) << tensors[0].name;
    ASSERT_EQ(sets.node_sets().size(), 2U);
    EXPECT_EQ(sets.node_sets()[1].features.size(), tensors.size());
  }
  // An edge set is no node set.
  const auto between_edges =
      GraphSets::FromSchema(GraphSchema::Create(SizeSchema::Create({"n", "e", "f"}).value(),
                                                {{"e.source", DType::kInt32, {}, 1, 0, ""},
                                                 {"e.target", DType::kInt32, {}, 1, 0, ""},
                                                 {"f.source", DType::kInt32, {}, 2, 0, ""},
                                                 {"f.target", DType::kInt32, {}, 2, 1, ""}})
                                .value());
  EXPECT_THAT(between_edges,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "schema: tensor 'f.target': it points into 'e', which is no node set"));
}

// A component with one tensor of its own name is a part of a ragged feature, if it has lengths.
TEST(GraphSetsTest, LengthsAreIntegersOfTheirSet) {
  const auto sets_of = [](const TensorSpec& lengths) {
    const SizeSchema sizes = SizeSchema::Create({"a", "a.x"}).value();
    return GraphSets::FromSchema(
        GraphSchema::Create(sizes, {lengths, {"a.x", DType::kInt8, {}, 1, {}, ""}}).value());
  };
  PH_ASSERT_OK_AND_ASSIGN(const GraphSets ragged,
                          sets_of({"a.x.d1", DType::kInt16, {}, 0, {}, ""}));
  ASSERT_EQ(ragged.node_sets().size(), 1U);
  ASSERT_EQ(ragged.node_sets()[0].features.size(), 1U);
  EXPECT_THAT(ragged.node_sets()[0].features[0].shape, ElementsAre(-1));
  for (const TensorSpec& wrong :
       std::vector<TensorSpec>{{"a.x.d1", DType::kFloat32, {}, 0, {}, ""},
                               {"a.x.d1", DType::kInt16, {}, 0, 0, ""},
                               {"a.x.d2", DType::kInt16, {2}, 0, {}, "", Layout::kRowsLast},
                               {"a.x.d2", DType::kInt16, {}, 0, {}, ""},
                               {"a.x.d1", DType::kInt16, {}, 2, {}, ""},
                               {"a.y.d1", DType::kInt16, {}, 0, {}, ""}}) {
    EXPECT_THAT(sets_of(wrong), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("tensor 'a.x': its rows belong to no node set")))
        << wrong.name;
  }
  // Nodes are nodes, whatever their tensor is called; and so is what edges point into.
  for (const auto& [nodes, tensor] : std::vector<std::pair<std::string, std::string>>{
           {"nodes", "source"}, {"other", "source"}, {"nodes", "x"}}) {
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                            GraphSchema::Create(SizeSchema::Create({nodes, "e"}).value(),
                                                {{nodes, DType::kInt8, {}, 0, {}, ""},
                                                 {tensor, DType::kInt32, {}, 1, 0, ""},
                                                 {"target", DType::kInt32, {}, 1, 0, ""}}));
    PH_ASSERT_OK_AND_ASSIGN(const GraphSets sets, GraphSets::FromSchema(schema));
    EXPECT_EQ(sets.node_sets()[0].name, nodes);
    EXPECT_EQ(sets.node_sets()[0].features[0].name, nodes);
  }
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

// Ends of edges are two scalars, or one pair, that point into a component; others of their names
// are features.
TEST(GraphSetsTest, EndsPointIntoNodes) {
  constexpr size_t kWholeGraphs = 2;
  const SizeSchema sizes = SizeSchema::Create({"nodes", "links"}).value();
  // Whether `links` have ends, and the names of their features.
  using Role = std::pair<bool, std::vector<std::string>>;
  const auto role_with = [&](std::vector<TensorSpec> tensors) {
    const GraphSets sets =
        GraphSets::FromSchema(GraphSchema::Create(sizes, std::move(tensors)).value()).value();
    Role role(!sets.edge_sets().empty(), {});
    const auto add = [&role](absl::Span<const Feature> features) {
      for (const Feature& feature : features) role.second.push_back(feature.name);
    };
    if (role.first) {
      add(sets.edge_sets()[0].features);
    } else {
      add(sets.node_sets().at(1).features);
    }
    return role;
  };
  struct Index {
    std::optional<size_t> into;
    std::vector<uint32_t> row_shape;
  };
  const auto tensor = [](const std::string& name, const Index& index) {
    return TensorSpec{name, DType::kInt64, index.row_shape, 1, index.into, ""};
  };
  EXPECT_EQ(role_with({tensor("edge_index", {0, {2}})}), Role(true, {}));
  for (const Index& wrong :
       {Index{{}, {2}}, Index{kWholeGraphs, {2}}, Index{0, {}}, Index{0, {3}}}) {
    EXPECT_EQ(role_with({tensor("edge_index", wrong)}), Role(false, {"edge_index"}));
  }
  const Index end = {0, {}};
  for (const auto& [source, target] :
       {std::pair("source", "target"), std::pair("senders", "receivers"), std::pair("src", "dst"),
        std::pair("row", "col"), std::pair("#source", "#target")}) {
    EXPECT_EQ(role_with({tensor(source, end), tensor(target, end)}), Role(true, {}));
    std::vector<std::string> names = {source, target};
    std::sort(names.begin(), names.end());
    for (const Index& wrong : {Index{{}, {}}, Index{kWholeGraphs, {}}, Index{0, {2}}}) {
      EXPECT_EQ(role_with({tensor(source, wrong), tensor(target, end)}), Role(false, names));
      EXPECT_EQ(role_with({tensor(source, end), tensor(target, wrong)}), Role(false, names));
    }
    EXPECT_EQ(role_with({tensor(source, end)}), Role(false, {source}));
  }
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
