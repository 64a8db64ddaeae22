#include "service/algorithms/collation/batch_shape.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
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

// The same, and one byte less; a batch without tensors has none.
TEST(BatchShapeTest, WhatIsPaddedMayFitExactly) {
  const GraphSchema schema = TaggedSchema();
  BatchShapeOptions options;
  options.padding = Padding::kTfgnn;
  options.max_batch_bytes = 20 * 8 + 10 * 4;
  EXPECT_THAT(BatchShape::Resolve(schema, {10, 20, kUnlimited, 4}, options), IsOk());
  options.max_batch_bytes = 1;
  options.whole_graphs = false;
  EXPECT_THAT(BatchShape::Resolve(schema, {10, 20, kUnlimited, 4}, options), IsOk());
}

// A component without a limit has as many rows as its index tensors can number.
TEST(BatchShapeTest, WhatHasNoLimitIsLowered) {
  BatchShapeOptions options;
  options.padding = Padding::kNone;
  options.max_graphs_per_batch = 7;
  const auto capacities = [&options](DType dtype) {
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"e", dtype, {}, 1, 0, {}}}).value();
    return BatchShape::Resolve(schema, {kUnlimited, 10, kUnlimited}, options)->capacities;
  };
  EXPECT_THAT(capacities(DType::kInt8), ElementsAre(127, 10, 7));
  EXPECT_THAT(capacities(DType::kUint64), ElementsAre(kMaxCapacity, 10, 7));
  const GraphSchema schema = TaggedSchema();
  EXPECT_THAT(BatchShape::Resolve(schema, {10, 10}, options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("limits: 2 capacities for 4 components")));
  EXPECT_THAT(BatchShape::Resolve(schema, {0, 10, 10, 10}, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limits: ")));
}

// Three nodes of every graph of a batch, padding graphs included.
TEST(BatchShapeTest, TheLeastRowsOfPaddingGraphsAreKeptFree) {
  const GraphSchema schema = TaggedSchema();
  BatchShapeOptions options;
  options.padding = Padding::kTfgnn;
  options.min_rows = MinRows({3, 0, 0});
  PH_ASSERT_OK_AND_ASSIGN(const BatchShape shape,
                          BatchShape::Resolve(schema, {30, 20, 8, 4}, options));
  EXPECT_THAT(shape.usable.capacities(), ElementsAre(27, 20, 8, 3));
  EXPECT_THAT(shape.packed.capacities(), ElementsAre(2 * (30 - 12) + 1, 20, 8, 3));
  EXPECT_EQ(shape.LargestGraph(0), 30 - 3 * 3);
  EXPECT_EQ(shape.LargestGraph(1), 20);
  EXPECT_EQ(shape.LargestGraph(3), 3);
  EXPECT_TRUE(shape.Takes({21, 20, 8, 1}));
  EXPECT_FALSE(shape.Takes({22, 20, 8, 1}));
  EXPECT_TRUE(shape.Takes({27, 20, 8, 3}));
  EXPECT_FALSE(shape.Takes({28, 20, 8, 3}));
  EXPECT_FALSE(shape.Takes({9, 21, 8, 3}));
  EXPECT_FALSE(shape.Takes({9, 20, 8, 4}));

  const auto created = [&schema](std::vector<uint64_t> capacities, MinRows least) {
    return BatchLayout::Create(&schema, std::move(capacities), Padding::kTfgnn, {},
                               std::move(least))
        .status();
  };
  constexpr uint64_t kMost = uint64_t{1} << 30;
  EXPECT_THAT(created({kMost, 20, 8, 4}, MinRows({3, 0, 0})), IsOk());
  EXPECT_THAT(created({kMost + 1, 20, 8, 4}, MinRows({3, 0, 0})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "min_rows: component 'nodes' has limit 1073741825, a minimum needs one of "
                       "at most 1073741824"));
  EXPECT_THAT(created({30, 20, BatchLayout::kRagged, 4}, MinRows({0, 0, 1})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("component 'nodes.tags' has no limit, a minimum needs one")));
}

TEST(MinRowsTest, PackedSizesAreTwiceWhatIsAboveTheLeast) {
  EXPECT_TRUE(MinRows({0, 0}).empty());
  const MinRows least({3, 0});
  EXPECT_FALSE(least.empty());
  constexpr uint32_t kMost = uint32_t{1} << 30;
  EXPECT_EQ(least.PackedSize(0, 2), UINT32_MAX);
  EXPECT_EQ(least.PackedSize(0, 3), 0);
  EXPECT_EQ(least.PackedSize(0, 10), 14);
  EXPECT_EQ(least.PackedSize(0, 3 + kMost), 2 * kMost);
  EXPECT_EQ(least.PackedSize(0, 4 + kMost), UINT32_MAX);
  EXPECT_EQ(least.PackedSize(1, 2), 2);
  EXPECT_EQ(least.PackedCapacity(0, 30, 4), 37);
  EXPECT_EQ(least.PackedCapacity(0, 12, 4), 1);
  EXPECT_EQ(least.PackedCapacity(1, 30, 4), 30);
  EXPECT_EQ(least.RealRows(0, 14, 2), 13);
  EXPECT_EQ(least.RealRows(1, 14, 2), 14);
  EXPECT_EQ(least.FirstBelow({2, 9}), 0);
  EXPECT_EQ(least.FirstBelow({3, 1}), std::nullopt);
  EXPECT_EQ(MinRows({0, 5}).FirstBelow({1, 4}), 1);
  EXPECT_EQ(MinRows().FirstBelow({1, 1}), std::nullopt);
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
  // The bound of graphs is the profile's or, without one, that of batches.
  EXPECT_EQ(padded.components[3].max_rows, 100);
  EXPECT_TRUE(padded.components[3].fits_packs);
  for (const uint64_t max_graphs : {30, 300}) {
    profile.components[3].max_rows = max_graphs;
    PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile bounded,
                            ProfileForPadding(profile, schema, Padding::kTfgnn, 100));
    EXPECT_EQ(bounded.components[3].max_rows, std::min<uint64_t>(max_graphs, 100));
    EXPECT_FALSE(bounded.components[3].fits_packs);
  }
  PH_ASSERT_OK_AND_ASSIGN(const DeviceProfile ragged,
                          ProfileForPadding(profile, schema, Padding::kNone, 100));
  EXPECT_EQ(ragged.components[0].reserved_rows, 0);
  EXPECT_EQ(ragged.components[3].max_rows, 300);
  const auto refused = [&](const DeviceProfile& other) {
    return ProfileForPadding(other, schema, Padding::kTfgnn, 100).status();
  };
  DeviceProfile other = profile;
  other.components[1].max_rows = kMaxCapacity;
  EXPECT_THAT(refused(other), IsOk());
  ++other.components[1].max_rows;
  EXPECT_THAT(refused(other), StatusIs(absl::StatusCode::kInvalidArgument,
                                       "profile: max_rows 2147483648 of component 'edges', a "
                                       "padded batch has at most 2147483647"));
  other = profile;
  other.components[0].max_rows = 1;  // Padding keeps it free.
  EXPECT_THAT(refused(other), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("of nodes leaves no room beside the 1")));
  other = profile;
  other.components.pop_back();
  EXPECT_THAT(refused(other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 components")));
}

}  // namespace
}  // namespace packhouse
