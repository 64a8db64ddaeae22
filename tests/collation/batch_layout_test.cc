#include "service/algorithms/collation/batch_layout.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GraphSchema WithIndexDType(DType dtype) {
  return GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {}, 0, {}, {}},
                                                           {"senders", dtype, {}, 1, 0, {}}})
      .value();
}

TEST(BatchLayoutTest, GraphPaddingKeepsWhatJraphNeedsFree) {
  const GraphSchema schema = WithIndexDType(DType::kInt32);
  EXPECT_THAT(ReservedRows(schema, Padding::kGraph), ElementsAre(1, 0, 1));
  EXPECT_THAT(ReservedRows(schema, Padding::kMasked), ElementsAre(0, 0, 0));
  EXPECT_THAT(ReservedRows(schema, Padding::kNone), ElementsAre(0, 0, 0));
  const GraphSchema sizes_only = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  EXPECT_THAT(ReservedRows(sizes_only, Padding::kGraph), ElementsAre(1, 0, 1));
}

TEST(BatchLayoutTest, RefusesCapacitiesThatCannotWork) {
  const GraphSchema schema = WithIndexDType(DType::kInt8);
  const auto create = [&](std::vector<uint64_t> capacities, Padding padding) {
    return BatchLayout::Create(&schema, std::move(capacities), padding, {});
  };
  EXPECT_THAT(create({128, 10, 2}, Padding::kGraph), IsOk());
  EXPECT_THAT(create({129, 10, 2}, Padding::kGraph),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("tensor 'senders' of int8 cannot number the 129 rows")));
  EXPECT_THAT(create({10, 10, 1}, Padding::kGraph),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("capacity 1 of component 'graphs' leaves no room")));
  EXPECT_THAT(create({10, BatchLayout::kRagged, 2}, Padding::kMasked),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("needs a capacity of component 'edges'")));
  EXPECT_THAT(create({10, BatchLayout::kRagged, 2}, Padding::kNone), IsOk());
  EXPECT_THAT(create({10, uint64_t{1} << 31, 2}, Padding::kNone),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("exceeds 2^31 - 1")));
  EXPECT_THAT(create({10, 10}, Padding::kNone),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 capacities for 3")));
}

TEST(BatchLayoutTest, CountsTheBytesOfABatch) {
  const GraphSchema schema = WithIndexDType(DType::kInt64);
  PH_ASSERT_OK_AND_ASSIGN(
      const BatchLayout plain,
      BatchLayout::Create(&schema, {10, 20, 3}, Padding::kMasked, DerivedTensors{}));
  EXPECT_EQ(plain.FixedBatchBytes(), 10U * 4 + 20U * 8);
  PH_ASSERT_OK_AND_ASSIGN(const BatchLayout all,
                          BatchLayout::Create(&schema, {10, 20, 3}, Padding::kMasked,
                                              DerivedTensors{true, true, true, true}));
  EXPECT_EQ(all.FixedBatchBytes(), 10U * 4 + 20U * 8     // tensors
                                       + 2U * 3 * 4      // counts
                                       + (10U + 20) * 4  // graph index
                                       + 2U * 4 * 4      // offsets
                                       + 10U + 20 + 3);  // masks
  PH_ASSERT_OK_AND_ASSIGN(
      const BatchLayout ragged,
      BatchLayout::Create(&schema, {10, 20, 3}, Padding::kNone, DerivedTensors{}));
  EXPECT_EQ(ragged.FixedBatchBytes(), std::nullopt);
}

}  // namespace
}  // namespace packhouse
