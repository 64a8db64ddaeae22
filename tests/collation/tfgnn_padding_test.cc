// Padding::kTfgnn, beside what it has in common with other paddings (collate_test.cc).
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/collate.h"
#include "service/algorithms/collation/uncollate.h"
#include "service/base/status_macros.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return absl::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <typename T>
std::vector<T> ValuesOf(const Batch& batch, const std::string& name) {
  for (const BatchTensor& tensor : batch.tensors) {
    if (tensor.name != name) continue;
    std::vector<T> values(tensor.data.size() / sizeof(T));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// Two graphs with the text feature `nodes.name.bytes`: nodes "ab", "" and "c"; and an edge each.
class TfgnnPaddingTest : public ::testing::Test {
 protected:
  absl::StatusOr<Batch> Collated(std::vector<uint64_t> capacities) {
    PH_ASSIGN_OR_RETURN(const BatchLayout layout,
                        BatchLayout::Create(&schema_, std::move(capacities), Padding::kTfgnn,
                                            {true, true, true, true}));
    return Collate(layout, std::vector<GraphRef>{{&chunk_, 0}, {&chunk_, 1}}, UINT64_MAX);
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::Create({"nodes", "edges", "nodes.name.bytes"}).value(),
                          {{"edges.source", DType::kInt32, {}, 1, 0, {}},
                           {"edges.target", DType::kInt64, {}, 1, 0, {}},
                           {"nodes.name.bytes.d1", DType::kInt32, {}, 0, {}, {}},
                           {"nodes.name.bytes", DType::kUint8, {}, 2, {}, {}}})
          .value();
  const std::vector<int32_t> source_ = {1, 0};
  const std::vector<int64_t> target_ = {0, 0};
  const std::vector<int32_t> lengths_ = {2, 0, 1};
  const GraphChunk chunk_ =
      GraphChunk::Create(&schema_,
                         SizeTable::WithConsecutiveIds(2, 3, {2, 1, 2, /**/ 1, 1, 1}, 0).value(),
                         {BytesOf(source_), BytesOf(target_), BytesOf(lengths_), "abc"}, nullptr)
          .value();
};

TEST_F(TfgnnPaddingTest, RowsOfRaggedFeaturesAreEmptyAndTheirValuesStayRagged) {
  PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collated({6, 6, BatchLayout::kRagged, 4}));
  EXPECT_THAT(batch.rows, ElementsAre(6, 6, 3, 4));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes.name.bytes.d1"), ElementsAre(2, 0, 1, 0, 0, 0));
  EXPECT_THAT(ValuesOf<char>(batch, "nodes.name.bytes"), ElementsAre('a', 'b', 'c'));
  // The first fake component has all spare rows.
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes/counts"), ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "edges/counts"), ElementsAre(1, 1, 4, 0));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes.name.bytes/counts"), ElementsAre(2, 1, 0, 0));
  // Fake edges are spread over the fake nodes 3 to 5.
  EXPECT_THAT(ValuesOf<int32_t>(batch, "edges.source"), ElementsAre(1, 2, 3, 4, 5, 5));
  EXPECT_THAT(ValuesOf<int64_t>(batch, "edges.target"), ElementsAre(0, 2, 3, 4, 5, 5));

  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk back, Uncollate(&schema_, batch));
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(SameGraph(back, i, chunk_, i));
}

TEST_F(TfgnnPaddingTest, WithALimitSpareValuesFollow) {
  PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collated({6, 6, 5, 4}));
  EXPECT_THAT(batch.rows, ElementsAre(6, 6, 5, 4));
  EXPECT_THAT(ValuesOf<char>(batch, "nodes.name.bytes"), ElementsAre('a', 'b', 'c', '\0', '\0'));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes.name.bytes.d1"), ElementsAre(2, 0, 1, 0, 0, 0));
}

// A schema like schema_, whose names have this padding value.
absl::StatusOr<GraphSchema> WithPaddingText(const GraphSchema& schema, std::string text,
                                            DType of_lengths = DType::kInt32) {
  std::vector<TensorSpec> tensors(schema.tensors().begin(), schema.tensors().end());
  tensors[2].dtype = of_lengths;
  tensors[3].padding_value = std::move(text);
  return GraphSchema::Create(schema.sizes(), std::move(tensors));
}

TEST_F(TfgnnPaddingTest, PaddingRowsOfTextHaveItsPaddingValue) {
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema, WithPaddingText(schema_, "pad"));
  PH_ASSERT_OK_AND_ASSIGN(
      const GraphChunk chunk,
      GraphChunk::Create(&schema, chunk_.sizes(),
                         {BytesOf(source_), BytesOf(target_), BytesOf(lengths_), "abc"}, nullptr));
  const auto padded = [&](std::vector<uint64_t> capacities, Padding padding, MinRows least = {}) {
    return BatchLayout::Create(&schema, std::move(capacities), padding, {true, true, true, true},
                               std::move(least));
  };
  const std::vector<GraphRef> both = {{&chunk, 0}, {&chunk, 1}};
  PH_ASSERT_OK_AND_ASSIGN(const BatchLayout roomy,
                          padded({7, 6, BatchLayout::kRagged, 4}, Padding::kTfgnn, MinRows({1})));
  PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collate(roomy, both, UINT64_MAX));
  EXPECT_THAT(batch.rows, ElementsAre(7, 6, 3 + 4 * 3, 4));
  EXPECT_THAT(batch.real_rows, ElementsAre(3, 2, 3, 2));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes.name.bytes.d1"), ElementsAre(2, 0, 1, 3, 3, 3, 3));
  const std::vector<char> bytes = ValuesOf<char>(batch, "nodes.name.bytes");
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "abcpadpadpadpad");
  // Its bytes are with the nodes that have them: three nodes in the first padding graph.
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes/counts"), ElementsAre(2, 1, 3, 1));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes.name.bytes/counts"), ElementsAre(2, 1, 9, 3));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes.name.bytes/graph"),
              ElementsAre(0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3));
  const std::vector<char> mask = ValuesOf<char>(batch, "nodes.name.bytes/mask");
  EXPECT_EQ(std::count(mask.begin(), mask.end(), 1), 3);
  PH_ASSERT_OK_AND_ASSIGN(const GraphChunk back, Uncollate(&schema, batch));
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(SameGraph(back, i, chunk_, i));
  // No batch has more bytes than are told beforehand, not even one of padding only.
  PH_ASSERT_OK_AND_ASSIGN(const Batch empty, Collate(roomy, {}, *roomy.PaddedBytes()));
  EXPECT_EQ(empty.rows[2], 7 * 3);
  // With a limit, or another padding, rows are empty.
  for (const Padding padding : {Padding::kTfgnn, Padding::kMasked}) {
    PH_ASSERT_OK_AND_ASSIGN(const BatchLayout limited, padded({6, 6, 5, 4}, padding));
    PH_ASSERT_OK_AND_ASSIGN(const Batch plain, Collate(limited, both, UINT64_MAX));
    EXPECT_THAT(ValuesOf<int32_t>(plain, "nodes.name.bytes.d1"), ElementsAre(2, 0, 1, 0, 0, 0));
    EXPECT_THAT(ValuesOf<char>(plain, "nodes.name.bytes"), ElementsAre('a', 'b', 'c', '\0', '\0'));
  }
}

TEST_F(TfgnnPaddingTest, PaddingTextsAreBounded) {
  const auto is_refused = [](const std::string& why) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(WithPaddingText(schema_, std::string(4096, 'a')), IsOk());
  EXPECT_THAT(WithPaddingText(schema_, std::string(4097, 'a')), is_refused("4097 bytes"));
  EXPECT_THAT(WithPaddingText(schema_, std::string(127, 'a'), DType::kInt8), IsOk());
  EXPECT_THAT(WithPaddingText(schema_, std::string(128, 'a'), DType::kInt8),
              is_refused("'nodes.name.bytes.d1' of int8"));
  EXPECT_THAT(WithPaddingText(schema_, "pad", DType::kFloat32), is_refused("padding_value has 3"));
  PH_ASSERT_OK_AND_ASSIGN(const GraphSchema schema,
                          WithPaddingText(schema_, std::string(4096, 'a')));
  EXPECT_THAT(
      BatchLayout::Create(&schema, {1 << 20, 6, BatchLayout::kRagged, 4}, Padding::kTfgnn, {}),
      is_refused("exceeds 2^31 - 1 bytes"));
}

// min_nodes_per_component: later fake components have just so many rows, the first has the rest.
TEST_F(TfgnnPaddingTest, EveryFakeComponentHasItsMinimum) {
  const auto layout = [&](uint64_t nodes) {
    return BatchLayout::Create(&schema_, {nodes, 6, BatchLayout::kRagged, 5}, Padding::kTfgnn,
                               {true, true, true, true}, MinRows({2, 0, 0}));
  };
  const std::vector<GraphRef> first = {{&chunk_, 0}};
  PH_ASSERT_OK_AND_ASSIGN(const BatchLayout roomy, layout(13));
  PH_ASSERT_OK_AND_ASSIGN(const Batch batch, Collate(roomy, first, UINT64_MAX));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes/counts"), ElementsAre(2, 5, 2, 2, 2));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes/offsets"), ElementsAre(0, 2, 7, 9, 11, 13));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "nodes/graph"),
              ElementsAre(0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4));
  EXPECT_THAT(ValuesOf<int32_t>(batch, "edges/counts"), ElementsAre(1, 5, 0, 0, 0));
  PH_ASSERT_OK_AND_ASSIGN(const BatchLayout tight, layout(10));
  PH_ASSERT_OK_AND_ASSIGN(const Batch exact, Collate(tight, first, UINT64_MAX));
  EXPECT_THAT(ValuesOf<int32_t>(exact, "nodes/counts"), ElementsAre(2, 2, 2, 2, 2));
  EXPECT_THAT(layout(9), StatusIs(absl::StatusCode::kInvalidArgument,
                                  HasSubstr("below 5 graphs of at least 2 rows")));
  EXPECT_THAT(BatchLayout::Create(&schema_, {13, 6, 9, 5}, Padding::kGraph, {}, MinRows({2, 0, 0})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("only with the padding")));
}

// As the library: an exact fit needs no fake component, and no fake edges no fake node.
TEST_F(TfgnnPaddingTest, NeedsARowOrAGraphOnlyForPadding) {
  PH_ASSERT_OK_AND_ASSIGN(const Batch exact, Collated({4, 2, BatchLayout::kRagged, 3}));
  EXPECT_THAT(ValuesOf<int32_t>(exact, "nodes/counts"), ElementsAre(2, 1, 1));
  EXPECT_THAT(Collated({4, 2, BatchLayout::kRagged, 2}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no graph is left")));
  EXPECT_THAT(Collated({3, 3, BatchLayout::kRagged, 3}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("no row of 'nodes' is left")));
  PH_ASSERT_OK_AND_ASSIGN(const Batch full, Collated({3, 2, BatchLayout::kRagged, 2}));
  EXPECT_THAT(ValuesOf<int32_t>(full, "nodes/counts"), ElementsAre(2, 1));
}

}  // namespace
}  // namespace packhouse
