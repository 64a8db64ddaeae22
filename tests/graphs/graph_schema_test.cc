#include "service/algorithms/graphs/graph_schema.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/graphs/text_features.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<GraphSchema> CreateWith(TensorSpec spec) {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(), {std::move(spec)});
}

TensorSpec NodeFeature() { return {"x", DType::kFloat32, {3}, 0, {}, {}}; }

TEST(GraphSchemaTest, KnowsRowBytesOfEveryDType) {
  const size_t expected[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  for (int dtype = 0; dtype < 13; ++dtype) {
    TensorSpec spec = NodeFeature();
    spec.dtype = static_cast<DType>(dtype);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, CreateWith(spec));
    EXPECT_EQ(schema.row_bytes(0), 3 * expected[dtype]) << DTypeName(spec.dtype);
  }
}

// As TF-GNN calls them: sets have slashes and dots in their names.
TEST(GraphSchemaTest, NamesMayHaveSlashesAndDots) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeSchema sizes,
                          SizeSchema::Create({"nodes/paper.v2", "edges/cites"}));
  TensorSpec spec = NodeFeature();
  for (const absl::string_view name : {"nodes/paper.v2.feat", "edges/cites.#source", "a/b/c", "/",
                                       "counts", "paper/counts", "edges/cites/weight"}) {
    spec.name = std::string(name);
    PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, GraphSchema::Create(sizes, {spec}));
    EXPECT_EQ(schema.TensorIndex(name), 0U);
  }
  spec.name = "edges/cites/counts";
  EXPECT_THAT(GraphSchema::Create(sizes, {spec}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("derived")));
}

TEST(GraphSchemaTest, RowsLastHaveAPlaneForEachElement) {
  TensorSpec spec = NodeFeature();
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema first, CreateWith(spec));
  EXPECT_EQ(first.num_planes(0), 1U);
  EXPECT_EQ(first.plane_row_bytes(0), 12U);
  spec.layout = Layout::kRowsLast;
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema last, CreateWith(spec));
  EXPECT_EQ(last.row_bytes(0), 12U);
  EXPECT_EQ(last.num_planes(0), 3U);
  EXPECT_EQ(last.plane_row_bytes(0), 4U);
}

TEST(GraphSchemaTest, KnowsTheComponentsOfRaggedFeatures) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeSchema sizes,
                          SizeSchema::Create({"a", "b", "a.f", "a.g.d2", "a.g", "c"}));
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          GraphSchema::Create(sizes, {{"a.f.d1", DType::kInt32, {}, 0, {}, {}},
                                                      {"a.f", DType::kFloat32, {3}, 2, {}, {}},
                                                      {"a.g.d1", DType::kInt32, {}, 0, {}, {}},
                                                      {"a.g.d2", DType::kInt32, {}, 3, {}, {}},
                                                      {"a.g", DType::kUint8, {}, 4, {}, {}},
                                                      // No features: an index, what an index
                                                      // points into, two tensors.
                                                      {"b", DType::kInt32, {}, 1, 5, {}},
                                                      {"c", DType::kInt8, {}, 5, {}, {}}}));
  for (const size_t k : {2, 3, 4}) EXPECT_TRUE(schema.IsRaggedFeature(k)) << k;
  for (const size_t k : {0, 1, 5, 6}) EXPECT_FALSE(schema.IsRaggedFeature(k)) << k;
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema two,
                          GraphSchema::Create(sizes, {{"c", DType::kInt8, {}, 5, {}, {}},
                                                      {"c.x", DType::kInt8, {}, 5, {}, {}}}));
  EXPECT_FALSE(two.IsRaggedFeature(5));
}

TEST(GraphSchemaTest, KnowsWhatIsPointedInto) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          CreateWith({"edge_index", DType::kInt32, {2}, 1, 0, {}}));
  EXPECT_TRUE(schema.IsPointedInto(0));
  EXPECT_FALSE(schema.IsPointedInto(1));
  EXPECT_EQ(schema.TensorIndex("edge_index"), 0U);
  EXPECT_EQ(schema.TensorIndex("x"), std::nullopt);
}

TEST(GraphSchemaTest, RefusesBadTensorsNamingTheField) {
  const auto expect_refused = [](TensorSpec spec, const std::string& message) {
    EXPECT_THAT(CreateWith(std::move(spec)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  TensorSpec spec = NodeFeature();
  spec.name = "a b";
  expect_refused(spec, "'a b'");
  spec = NodeFeature();
  for (const absl::string_view name :
       {"nodes/counts", "edges/graph", "nodes/offsets", "edges/mask", "graphs/mask"}) {
    spec.name = std::string(name);
    expect_refused(spec, "the name is that of a tensor derived from a component");
  }
  spec.name = "";
  expect_refused(spec, "1 to 128 characters");
  spec = NodeFeature();
  spec.row_shape = {3, 0};
  expect_refused(spec, "extent of 0");
  spec = NodeFeature();
  spec.row_shape = {1U << 31, 1U << 31, 1U << 31};
  expect_refused(spec, "exceeds 16777216 bytes");
  spec = NodeFeature();
  spec.row_shape.assign(9, 1);
  expect_refused(spec, "row_shape has 9 extents, at most 8");
  spec = NodeFeature();
  spec.layout = Layout::kRowsLast;
  for (const std::vector<uint32_t>& row_shape :
       {std::vector<uint32_t>{}, {2, 3}, {GraphSchema::kMaxPlanes + 1}}) {
    spec.row_shape = row_shape;
    expect_refused(spec, "layout: rows last needs a row_shape of one extent, at most 16, not [");
  }
  spec = NodeFeature();
  spec.component = 3;
  expect_refused(spec, "no component 3");
  spec = NodeFeature();
  spec.padding_value = "abc";
  expect_refused(spec, "padding_value has 3 bytes, float32 has 4");
  spec = NodeFeature();
  spec.index_into = 0;
  expect_refused(spec, "integer dtype, not float32");
  spec.dtype = DType::kInt32;
  spec.index_into = 7;
  expect_refused(spec, "no component 7");
  spec.index_into = 0;
  spec.padding_value = std::string(4, '\1');
  expect_refused(spec, "must not have a padding_value");
}

TEST(GraphSchemaTest, TheBoundsThemselvesAreAllowed) {
  TensorSpec spec = NodeFeature();
  spec.name.assign(128, 'x');
  spec.component = 2;
  spec.row_shape.assign(8, 1);
  EXPECT_THAT(CreateWith(spec), IsOk());
  spec.row_shape = {uint32_t{1} << 22};
  EXPECT_THAT(CreateWith(spec), IsOk());
  ++spec.row_shape[0];
  EXPECT_THAT(CreateWith(spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exceeds 16777216 bytes")));
  spec.row_shape = {16};
  spec.layout = Layout::kRowsLast;
  spec.dtype = DType::kUint64;
  spec.index_into = 2;
  EXPECT_THAT(CreateWith(spec), IsOk());
  spec.name += 'x';
  EXPECT_THAT(CreateWith(spec),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 to 128 characters")));
  std::vector<TensorSpec> most(GraphSchema::kMaxTensors, NodeFeature());
  for (size_t t = 0; t < most.size(); ++t) most[t].name = absl::StrCat("x", t);
  EXPECT_THAT(GraphSchema::Create(SizeSchema::NodesAndEdges(), most), IsOk());
}

TEST(GraphSchemaTest, RefusesRepeatedAndTooManyTensors) {
  EXPECT_THAT(GraphSchema::Create(SizeSchema::NodesAndEdges(), {NodeFeature(), NodeFeature()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'x': is listed twice")));
  std::vector<TensorSpec> many(GraphSchema::kMaxTensors + 1, NodeFeature());
  EXPECT_THAT(GraphSchema::Create(SizeSchema::NodesAndEdges(), many),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("257 tensors, at most 256")));
}

TEST(TextFeaturesTest, TheNameAndWhatIsBesideItSayWhatIsText) {
  const auto is_text = [](const std::string& name, bool is_alone, const std::string& lengths) {
    const SizeSchema sizes = SizeSchema::Create({"nodes", name}).value();
    std::vector<TensorSpec> tensors = {{name, DType::kUint8, {}, 1, {}, {}}};
    if (!is_alone) tensors.push_back({"other", DType::kUint8, {}, 1, {}, {}});
    for (const absl::string_view dimension : absl::StrSplit(lengths, ' ')) {
      tensors.push_back({absl::StrCat(name, dimension), DType::kInt32, {}, 0, {}, {}});
    }
    return LengthsOfText(GraphSchema::Create(sizes, std::move(tensors)).value(), 0).has_value();
  };
  EXPECT_TRUE(is_text("a.bytes", true, ".d1"));
  EXPECT_FALSE(is_text("a", true, ".d1"));
  EXPECT_FALSE(is_text("a.bytes", false, ".d1"));
  EXPECT_FALSE(is_text("a.bytes", true, ".d1 .d2"));
  EXPECT_FALSE(is_text("a.bytes", true, ".d2"));
}

// Bytes of one each, and numbers of them along something that is no ragged feature itself.
TEST(TextFeaturesTest, TheTensorsAreThoseOfText) {
  const TensorSpec bytes = {"a.bytes", DType::kUint8, {}, 1, {}, {}};
  const TensorSpec lengths = {"a.bytes.d1", DType::kInt32, {}, 0, {}, {}};
  const auto found = [](const TensorSpec& of_bytes, const TensorSpec& of_lengths) {
    return LengthsOfText(
        GraphSchema::Create(SizeSchema::Create({"nodes", "a.bytes", "a.bytes.d1"}).value(),
                            {of_bytes, of_lengths})
            .value(),
        0);
  };
  EXPECT_EQ(found(bytes, lengths), 1U);
  TensorSpec other = bytes;
  other.dtype = DType::kInt8;
  EXPECT_EQ(found(other, lengths), std::nullopt);
  other = bytes;
  other.row_shape = {2};
  EXPECT_EQ(found(other, lengths), std::nullopt);
  other = lengths;
  other.dtype = DType::kFloat32;
  EXPECT_EQ(found(bytes, other), std::nullopt);
  other = lengths;
  other.index_into = 0;
  EXPECT_EQ(found(bytes, other), std::nullopt);
  other = lengths;
  other.component = 2;
  EXPECT_EQ(found(bytes, other), std::nullopt);
}

}  // namespace
}  // namespace packhouse
