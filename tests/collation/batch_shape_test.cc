#include "service/algorithms/collation/batch_shape.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Nodes with a ragged feature `nodes.tags`, and edges.
GraphSchema TaggedSchema() {
  return GraphSchema::Create(SizeSchema::Create({"nodes", "edges", "nodes.tags"}).value(),
                             {{"edges.source", DType::kInt32, {}, 1, 0, {}},
                              {"edges.target", DType::kInt32, {}, 1, 0, {}},
                              {"nodes.tags.d1", DType::kInt32, {}, 0, {}, {}},
                              {"nodes.tags", DType::kInt64, {2}, 2, {}, {}}})
      .value();
}

TEST(BatchShapeTest, ARaggedFeatureNeedsNoLimitWithTfgnnAlone) {
  const GraphSchema schema = TaggedSchema();
  const std::vector<uint64_t> limits = {10, 20, kUnlimited, 4};
  BatchShapeOptions options;
  options.padding = Padding::kTfgnn;
  PH_ASSERT_OK_AND_ASSIGN(const BatchShape shape, BatchShape::Resolve(schema, limits, options));
  EXPECT_THAT(shape.usable.capacities(), ElementsAre(9, 20, kUnlimited, 3));
  EXPECT_FALSE(shape.layout.is_fixed());
  EXPECT_TRUE(shape.layout.is_ragged(2));
  EXPECT_FALSE(shape.layout.is_ragged(0));
  // 20 edges with two ends and 10 lengths; values are 16 bytes each.
  EXPECT_EQ(shape.layout.PaddedBytes(), 20 * 8 + 10 * 4);
  EXPECT_EQ(shape.layout.RaggedBytes({1, 1, 3, 1}), 48U);
  EXPECT_EQ(shape.layout.FixedBatchBytes(), std::nullopt);

  for (const Padding other : {Padding::kMasked, Padding::kGraph}) {
    options.padding = other;
    EXPECT_THAT(BatchShape::Resolve(schema, limits, options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("padding needs a capacity of component 'nodes.tags'")));
  }
  options.padding = Padding::kTfgnn;
  EXPECT_THAT(BatchShape::Resolve(schema, {10, kUnlimited, 8, 4}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("padding needs a capacity of component 'edges'")));
  // With a limit the shape is fixed.
  PH_ASSERT_OK_AND_ASSIGN(const BatchShape fixed,
                          BatchShape::Resolve(schema, {10, 20, 8, 4}, options));
  EXPECT_EQ(fixed.layout.FixedBatchBytes(), 20 * 8 + 10 * 4 + 8 * 16);
}

// What is padded must fit a batch, whatever is ragged beside it.
TEST(BatchShapeTest, TheBytesOfWhatIsPaddedAreBounded) {
  const GraphSchema schema = TaggedSchema();
  BatchShapeOptions options;
  options.padding = Padding::kTfgnn;
  options.max_batch_bytes = 20 * 8 + 10 * 4 - 1;
  EXPECT_THAT(BatchShape::Resolve(schema, {10, 20, kUnlimited, 4}, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("would take 200 bytes")));
}

TEST(BatchShapeTest, WithoutIndexTensorsTfgnnKeepsOnlyAGraphFree) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt8, {}, 0, {}, {}}})
          .value();
  EXPECT_THAT(ReservedRows(schema, Padding::kTfgnn), ElementsAre(0, 0, 1));
  EXPECT_THAT(ReservedRows(TaggedSchema(), Padding::kTfgnn), ElementsAre(1, 0, 0, 1));
}

// Ids and sizes of the graphs of a batch take no more bytes with many components than with
// kUsualComponents.
TEST(BatchShapeTest, ManyComponentsTakeFewerGraphs) {
  EXPECT_EQ(MostGraphs(65536, 0), 65536U);
  EXPECT_EQ(MostGraphs(65536, kUsualComponents), 65536U);
  for (size_t l = kUsualComponents + 1; l <= kMaxComponents; ++l) {
    const uint64_t most = MostGraphs(65536, l);
    EXPECT_LE(most * (8 + 4 * l), 65536 * (8 + 4 * kUsualComponents));
    EXPECT_GT(most, 10'000U);
  }
  EXPECT_EQ(MostGraphs(3, kMaxComponents), 2U);
  EXPECT_EQ(MostGraphs(1, kMaxComponents), 1U);
}

TEST(BatchShapeTest, ADeviceNeedsNoRowsOfARaggedFeature) {
  const GraphSchema schema = TaggedSchema();
  DeviceProfile profile;
  profile.components.resize(4);
  profile.components[0].max_rows = 64;
  profile.components[1].max_rows = 64;
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile padded,
                          ProfileForPadding(profile, schema, Padding::kTfgnn, 100));
  EXPECT_EQ(padded.components[2].max_rows, 0U);
  EXPECT_EQ(padded.components[0].reserved_rows, 1U);
  EXPECT_EQ(padded.components[3].reserved_rows, 1U);
  EXPECT_THAT(ProfileForPadding(profile, schema, Padding::kGraph, 100),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'nodes.tags'")));
}

}  // namespace
}  // namespace packhouse
