#include "service/algorithms/planning/device_profile.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

class CheckDeviceProfileTest : public testing::Test {
 protected:
  CheckDeviceProfileTest() {
    profile_.components.resize(3);
    profile_.components[0] = {1, 512, 8, 4, 1};
    profile_.components[1] = {1, 1024, 8, 8, 1};
    profile_.components[2] = {1, 256, 1, 4, 0};
  }

  absl::Status Check() const { return CheckDeviceProfile(profile_, SizeSchema::NodesAndEdges()); }
  static auto IsInvalid(const char* message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, message);
  }

  DeviceProfile profile_;
};

TEST_F(CheckDeviceProfileTest, AGoodProfile) {
  EXPECT_THAT(Check(), IsOk());
  profile_.max_distinct_shapes = 8;
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDeviceProfileTest, AnotherNumberOfComponents) {
  profile_.components.pop_back();
  EXPECT_THAT(Check(), IsInvalid("profile: 2 components, expected 3 with graphs"));
  profile_.components.clear();
  EXPECT_THAT(Check(), IsInvalid("profile: 0 components, expected 3 with graphs"));
}

TEST_F(CheckDeviceProfileTest, ShapesOutOfRange) {
  profile_.max_distinct_shapes = 0;
  EXPECT_THAT(Check(), IsInvalid("profile: max_distinct_shapes 0; it must be in [1, 8]"));
  profile_.max_distinct_shapes = 9;
  EXPECT_THAT(Check(), IsInvalid("profile: max_distinct_shapes 9; it must be in [1, 8]"));
}

TEST_F(CheckDeviceProfileTest, CostsOutOfRange) {
  double& cost = profile_.components[1].relative_cost;
  cost = -0.5;
  EXPECT_THAT(Check(),
              IsInvalid("profile: relative_cost -0.5 of edges; it must be in [0, 1e+200]"));
  cost = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Check(), IsInvalid("profile: relative_cost inf of edges; it must be in [0, 1e+200]"));
  cost = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Check(), IsInvalid("profile: relative_cost nan of edges; it must be in [0, 1e+200]"));
  cost = 1.1e200;
  EXPECT_THAT(Check(),
              IsInvalid("profile: relative_cost 1.1e+200 of edges; it must be in [0, 1e+200]"));
  cost = ComponentProfile::kMaxRelativeCost;
  EXPECT_THAT(Check(), IsOk());
  // Also where there is no limit.
  profile_.components[1] = {1, 0, 1, 0, -1};
  EXPECT_THAT(Check(), IsInvalid("profile: relative_cost -1 of edges; it must be in [0, 1e+200]"));
}

TEST_F(CheckDeviceProfileTest, CostsOfABatchOutOfRange) {
  for (double* const cost : {&profile_.fixed_cost, &profile_.least_cost}) {
    for (const double bad : {-0.5, 1.1e200, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
      *cost = bad;
      EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                    ::testing::EndsWith("; it must be in [0, 1e+200]")));
    }
    *cost = ComponentProfile::kMaxRelativeCost;
    EXPECT_THAT(Check(), IsOk());
  }
}

TEST_F(CheckDeviceProfileTest, NoRoomBesideWhatPaddingKeepsFree) {
  profile_.components[0] = {1, 17, 8, 0, 1, 16};
  EXPECT_THAT(Check(), IsInvalid("profile: max_rows 17 of nodes leaves no room beside the 16 that "
                                 "padding keeps free"));
  profile_.components[0].reserved_rows = 15;
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDeviceProfileTest, TheSmallestCapacitiesDidNotFit) {
  MeasuredBytes bytes;
  bytes.too_large = {{8, 8, 1}};
  profile_.measured_as = "gin/h100";
  profile_.measured_bytes = std::make_shared<MeasuredBytes>(bytes);
  EXPECT_THAT(Check(),
              IsInvalid("profile: batches of the smallest capacities, or of as many bytes (100), "
                        "did not fit the device, as measured_as 'gin/h100' tells"));
  bytes.too_large = {{8, 9, 1}};
  profile_.measured_bytes = std::make_shared<MeasuredBytes>(bytes);
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDeviceProfileTest, AMultipleOfNothing) {
  profile_.components[2].multiple_of = 0;
  EXPECT_THAT(Check(), IsInvalid("profile: multiple_of 0 of graphs; at least 1 is needed"));
}

TEST_F(CheckDeviceProfileTest, ACapacityThatMeansNone) {
  profile_.components[0].max_rows = UINT64_MAX;
  EXPECT_THAT(Check(), IsInvalid("profile: max_rows 18446744073709551615 of nodes; at most "
                                 "18446744073709551614 is allowed"));
  profile_.components[0].max_rows = UINT64_MAX - 1;
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDeviceProfileTest, NoMultipleInTheRange) {
  profile_.components[0] = {65, 127, 64, 0, 1};
  EXPECT_THAT(Check(),
              IsInvalid("profile: no multiple of 64 in [min_rows, max_rows] = [65, 127] of nodes"));
  profile_.components[0] = {0, 7, 8, 0, 1};
  EXPECT_THAT(Check(),
              IsInvalid("profile: no multiple of 8 in [min_rows, max_rows] = [1, 7] of nodes"));
  profile_.components[0] = {9, 8, 1, 0, 1};
  EXPECT_THAT(Check(),
              IsInvalid("profile: no multiple of 1 in [min_rows, max_rows] = [9, 8] of nodes"));
  profile_.components[0] = {65, 128, 64, 0, 1};
  EXPECT_THAT(Check(), IsOk());
  profile_.components[0] = {8, 8, 8, 0, 1};
  EXPECT_THAT(Check(), IsOk());
}

TEST_F(CheckDeviceProfileTest, NoLimitAtAll) {
  for (ComponentProfile& component : profile_.components) component.max_rows = 0;
  EXPECT_THAT(Check(), IsInvalid("profile: no component has max_rows above 0, so that no batch "
                                 "would ever be full"));
}

TEST_F(CheckDeviceProfileTest, NoCostWhereThereIsALimit) {
  profile_.components[0].max_rows = 0;
  profile_.components[1].relative_cost = 0;
  EXPECT_THAT(Check(), IsInvalid("profile: relative_cost is 0 in every component that has "
                                 "max_rows; one above 0 is needed"));
}

TEST_F(CheckDeviceProfileTest, TheSmallestCapacitiesMustFitTheMemory) {
  profile_.fixed_bytes = 100;
  // 8 * 4 + 8 * 8 + 1 * 4 + 100.
  profile_.memory_bytes = 199;
  EXPECT_THAT(Check(),
              IsInvalid("profile: the smallest capacities take 200 bytes, memory_bytes is 199"));
  profile_.memory_bytes = 200;
  EXPECT_THAT(Check(), IsOk());
  profile_.components[0].bytes_per_row = UINT64_MAX;
  EXPECT_THAT(Check(), IsInvalid("profile: the smallest capacities take 18446744073709551615 "
                                 "bytes, memory_bytes is 200"));
  profile_.memory_bytes = UINT64_MAX;
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  profile_.memory_bytes = 0;
  EXPECT_THAT(Check(), IsOk());
}

TEST(DeviceProfileTest, SmallestAndLargestCapacity) {
  const auto smallest = [](uint64_t min_rows, uint64_t multiple_of) {
    return SmallestCapacity({min_rows, UINT64_MAX - 1, multiple_of, 0, 1});
  };
  EXPECT_EQ(smallest(0, 1), 1);
  EXPECT_EQ(smallest(0, 8), 8);
  EXPECT_EQ(smallest(8, 8), 8);
  EXPECT_EQ(smallest(9, 8), 16);
  EXPECT_EQ(smallest(UINT64_MAX - 7, 8), UINT64_MAX - 7);
  EXPECT_EQ(LargestCapacity({1, 17, 8, 0, 1}), 16);
  EXPECT_EQ(LargestCapacity({1, UINT64_MAX - 1, 1, 0, 1}), UINT64_MAX - 1);
}

TEST(DeviceProfileTest, BytesAndCostOfAShape) {
  DeviceProfile profile;
  profile.components = {{1, 512, 1, 4, 1.5}, {1, 0, 1, 8, 7}, {1, 256, 1, 2, 0.25}};
  profile.fixed_bytes = 1000;
  const std::vector<uint64_t> capacities = {100, kUnlimited, 8};
  EXPECT_EQ(BytesOfShape(profile, capacities), 1000 + 400 + 16);
  EXPECT_EQ(CostOfShape(profile, capacities), 150 + 2);
  EXPECT_TRUE(FitsMemory(profile, capacities));
  profile.memory_bytes = 1416;
  EXPECT_TRUE(FitsMemory(profile, capacities));
  profile.memory_bytes = 1415;
  EXPECT_FALSE(FitsMemory(profile, capacities));
}

// What padding keeps free is part of what is aligned, remembered and paid for.
TEST(DeviceProfileTest, ReservedRowsArePartOfABatch) {
  ComponentProfile nodes = {1, 50, 8, 3, 2, 5};
  EXPECT_EQ(SmallestCapacity(nodes), 3);
  EXPECT_EQ(LargestCapacity(nodes), 43);
  EXPECT_EQ(CapacityFor(nodes, 3), 3);
  EXPECT_EQ(CapacityFor(nodes, 4), 11);
  nodes.min_rows = 20;
  EXPECT_EQ(SmallestCapacity(nodes), 19);

  DeviceProfile profile;
  profile.components = {nodes, {1, 0, 1, 9, 9, 4}, {1, 64, 1, 0, 0, 1}};
  profile.fixed_bytes = 100;
  profile.fixed_cost = 7;
  const std::vector<uint64_t> capacities = {11, kUnlimited, 3};
  EXPECT_EQ(WithReserved(profile, capacities), (std::vector<uint64_t>{16, kUnlimited, 4}));
  EXPECT_EQ(BytesOfShape(profile, capacities), 100 + 3 * 16);
  EXPECT_EQ(CostOfShape(profile, capacities), 7 + 2 * 16);
  profile.least_cost = 38;
  EXPECT_EQ(CostOfShape(profile, capacities), 39);
  profile.least_cost = 40;
  EXPECT_EQ(CostOfShape(profile, capacities), 40);
  EXPECT_FALSE(HasMemoryBound(profile));
  profile.memory_bytes = 1;
  EXPECT_TRUE(HasMemoryBound(profile));
}

// As their header says, in every component by the ratio of the one that grows most.
TEST(MeasuredBytesTest, TheLeastOfTheBoundsAndWhatDidNotFit) {
  EXPECT_EQ(MeasuredBytes().BytesOf({7}), 0);
  EXPECT_TRUE(MeasuredBytes().MayFit({7}));
  MeasuredBytes bytes;
  bytes.fitted = {{{10, 40, kUnlimited}, 1100}, {{20, 40, 0}, 1500}};
  bytes.fixed_bytes = 100;
  EXPECT_EQ(bytes.BytesOf({5, 40, 1}), 1100);
  EXPECT_EQ(bytes.BytesOf({10, 40, 1}), 1100);
  EXPECT_EQ(bytes.BytesOf({20, 40, 1}), 1500);
  EXPECT_EQ(bytes.BytesOf({20, 80, 1}), 2100);
  EXPECT_EQ(bytes.BytesOf({40, 10, 9}), 2900);
  bytes.most_bytes = 2899;
  EXPECT_FALSE(bytes.MayFit({40, 10, 9}));
  bytes.most_bytes = 2900;
  EXPECT_TRUE(bytes.MayFit({40, 10, 9}));
  bytes.too_large = {{41, 0, 9}};
  EXPECT_TRUE(bytes.MayFit({40, 10, 9}));
  bytes.most_bytes = UINT64_MAX;
  EXPECT_TRUE(bytes.MayFit({50, 10, 8}));
  EXPECT_FALSE(bytes.MayFit({41, 1, 9}));
  EXPECT_FALSE(bytes.MayFit({50, 10, 10}));
  // No fewer than the constant, and no more than a number holds.
  bytes.fitted = {{{10}, 50}};
  EXPECT_EQ(bytes.BytesOf({1000}), 100);
  bytes.fitted = {{{1}, uint64_t{1} << 63}};
  EXPECT_EQ(bytes.BytesOf({1000}), UINT64_MAX);

  // They are about whole batches, and stand for what is declared.
  DeviceProfile profile;
  profile.components = {{1, 100, 1, 1000, 1, 2}, {1, 0, 1, 0, 0}};
  bytes.fitted = {{{20}, 1500}};
  bytes.too_large = {{45}};
  profile.measured_bytes = std::make_shared<MeasuredBytes>(bytes);
  EXPECT_EQ(BytesOfShape(profile, {38, kUnlimited}), 2900);
  EXPECT_TRUE(FitsMemory(profile, {42, kUnlimited}));
  EXPECT_FALSE(FitsMemory(profile, {43, kUnlimited}));
  EXPECT_TRUE(HasMemoryBound(profile));
}

// Products and the sum do not wrap around. A number of bytes that was cut off fits no memory.
TEST(DeviceProfileTest, BytesSaturate) {
  DeviceProfile profile;
  profile.components = {{1, UINT64_MAX - 1, 1, uint64_t{1} << 32, 1}, {1, 8, 1, 1, 1}};
  const uint64_t half = uint64_t{1} << 31;
  EXPECT_EQ(BytesOfShape(profile, {half, 7}), (uint64_t{1} << 63) + 7);
  EXPECT_EQ(BytesOfShape(profile, {2 * half, 7}), UINT64_MAX);
  profile.fixed_bytes = UINT64_MAX - (uint64_t{1} << 63) - 7;
  EXPECT_EQ(BytesOfShape(profile, {half, 7}), UINT64_MAX);
  EXPECT_EQ(BytesOfShape(profile, {half, 6}), UINT64_MAX - 1);
  profile.memory_bytes = UINT64_MAX;
  EXPECT_TRUE(FitsMemory(profile, {half, 6}));
  EXPECT_FALSE(FitsMemory(profile, {half, 8}));
  EXPECT_FALSE(FitsMemory(profile, {2 * half, 7}));
}

}  // namespace
}  // namespace packhouse
