#include "service/algorithms/planning/oversize_graphs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/scarce_worlds.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

uint64_t WeightOf(const ScarceWorld& world, size_t row, KeptMost kept) {
  if (kept == KeptMost::kNumGraphs) return world.histogram.count(row);
  uint64_t rows = 0;
  for (size_t k = 0; k < world.profile.components.size(); ++k) {
    const ComponentProfile& component = world.profile.components[k];
    if (component.max_rows == 0 || component.relative_cost == 0) continue;
    rows += k < world.histogram.num_components() ? world.histogram.tuple(row)[k] : 1;
  }
  return rows * world.histogram.count(row);
}

LeftOutSizes Oversize(const SizeHistogram& histogram, const DeviceProfile& profile, KeptMost kept) {
  WorkBudget budget;
  return FindOversize(histogram, profile, kept, budget).value();
}

// What is kept is the most that any one shape takes; what is left out alone fits none, what is left
// out apart fits some.
TEST(FindOversizeTest, KeepsTheMostThatAnyOneShapeTakes) {
  int apart = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const ScarceWorld world = RandomScarceWorld(random);
    const auto allowed = AllowedCapacities(world.profile);
    if (allowed.empty()) continue;
    for (const KeptMost kept : {KeptMost::kNumGraphs, KeptMost::kCostedRows}) {
      const LeftOutSizes left_out = Oversize(world.histogram, world.profile, kept);
      apart += left_out.apart.empty() ? 0 : 1;
      const auto fits_some = [&](const SizeTuple& tuple) {
        return std::any_of(allowed.begin(), allowed.end(),
                           [&](const auto& capacities) { return TakesSize(capacities, tuple); });
      };
      for (const SizeTuple& tuple : left_out.alone) EXPECT_FALSE(fits_some(tuple));
      for (const SizeTuple& tuple : left_out.apart) EXPECT_TRUE(fits_some(tuple));
      EXPECT_TRUE(std::is_sorted(left_out.apart.begin(), left_out.apart.end()));

      uint64_t kept_weight = 0;
      std::vector<size_t> kept_rows;
      for (size_t row = 0; row < world.histogram.num_distinct(); ++row) {
        const auto sizes = world.histogram.tuple(row);
        const SizeTuple tuple(sizes.begin(), sizes.end());
        const auto is_in = [&](const std::vector<SizeTuple>& tuples) {
          return std::find(tuples.begin(), tuples.end(), tuple) != tuples.end();
        };
        if (is_in(left_out.alone) || is_in(left_out.apart)) continue;
        kept_weight += WeightOf(world, row, kept);
        kept_rows.push_back(row);
      }
      uint64_t most = 0;
      bool takes_all_kept = false;
      for (const std::vector<uint64_t>& capacities : allowed) {
        uint64_t weight = 0;
        for (size_t row = 0; row < world.histogram.num_distinct(); ++row) {
          if (TakesSize(capacities, world.histogram.tuple(row)))
            weight += WeightOf(world, row, kept);
        }
        most = std::max(most, weight);
        takes_all_kept |= std::all_of(kept_rows.begin(), kept_rows.end(), [&](size_t row) {
          return TakesSize(capacities, world.histogram.tuple(row));
        });
      }
      EXPECT_TRUE(takes_all_kept);
      EXPECT_EQ(kept_weight, most);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(apart, 100);
}

DeviceProfile TwoComponents(uint64_t max_rows, uint64_t memory_bytes) {
  DeviceProfile profile;
  profile.components = {{1, max_rows, 1, 1, 1}, {1, max_rows, 1, 1, 1}, {1, 0, 1, 0, 0}};
  profile.memory_bytes = memory_bytes;
  return profile;
}

// One rare graph needs less memory than each of the many others.
TEST(FindOversizeTest, ARareGraphDoesNotPutTheManyOut) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({1000, 10}, 1'000'000), IsOk());
  ASSERT_THAT(histogram.Add({10, 999}, 1), IsOk());
  const DeviceProfile profile = TwoComponents(2048, 1500);
  const LeftOutSizes left_out = Oversize(histogram, profile, KeptMost::kNumGraphs);
  EXPECT_THAT(left_out.alone, IsEmpty());
  EXPECT_THAT(left_out.apart, ElementsAre(SizeTuple{10, 999}));
  const OversizeGraphs oversize = DescribeOversize(left_out, histogram, profile);
  EXPECT_EQ(oversize.num_graphs, 1);
  EXPECT_EQ(oversize.num_apart, 1);
  EXPECT_THAT(oversize.needed_rows, ElementsAre(1000, 999, 0));
  EXPECT_EQ(oversize.needed_bytes, 1999);
}

// Which component, or the memory, and by how much.
TEST(ExcessOverProfileTest, NamesWhatIsExceeded) {
  DeviceProfile profile = TwoComponents(2048, 1500);
  const auto expect = [&profile](SizeTuple tuple, size_t component, uint64_t value,
                                 uint64_t bound) {
    const auto excess = ExcessOverProfile(tuple, profile);
    ASSERT_TRUE(excess.has_value());
    EXPECT_EQ(excess->component, component);
    EXPECT_EQ(excess->value, value);
    EXPECT_EQ(excess->bound, bound);
  };
  expect({10, 2049}, 1, 2049, 2048);
  expect({1000, 501}, ProfileExcess::kMemory, 1501, 1500);
  EXPECT_FALSE(ExcessOverProfile({1000, 500}, profile).has_value());
  MeasuredBytes bytes;
  bytes.fitted = {{{1000, 500, 1}, 900}};
  bytes.most_bytes = 1000;
  profile.measured_bytes = std::make_shared<MeasuredBytes>(bytes);
  profile.memory_bytes = 0;
  expect({2000, 500}, ProfileExcess::kMemory, 1800, 1000);
  EXPECT_FALSE(ExcessOverProfile({1000, 500}, profile).has_value());
  profile.measured_bytes = nullptr;
  EXPECT_FALSE(ExcessOverProfile({2048, 2048}, profile).has_value());
}

TEST(FindOversizeTest, RowsCountForTheMean) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({1000, 10}, 5), IsOk());
  ASSERT_THAT(histogram.Add({10, 600}, 7), IsOk());
  const DeviceProfile profile = TwoComponents(2048, 1500);
  EXPECT_THAT(Oversize(histogram, profile, KeptMost::kNumGraphs).apart,
              ElementsAre(SizeTuple{1000, 10}));
  EXPECT_THAT(Oversize(histogram, profile, KeptMost::kCostedRows).apart,
              ElementsAre(SizeTuple{10, 600}));
}

// With many sizes the search ends, whatever it meets: sizes of which no two fit together, and sizes
// that fill a square.
TEST(FindOversizeTest, ManySizes) {
  constexpr uint32_t kSizes = 20'000;
  SizeHistogram line(2);
  for (uint32_t i = 1; i < kSizes; ++i) ASSERT_THAT(line.Add({i, kSizes - i}, 1 + i % 3), IsOk());
  EXPECT_EQ(Oversize(line, TwoComponents(kSizes, kSizes), KeptMost::kNumGraphs).apart.size(),
            kSizes - 2);

  SizeHistogram square(2);
  Random random(3);
  for (uint32_t i = 0; i < kSizes; ++i) {
    const auto a = static_cast<uint32_t>(random.Below(1000));
    const auto b = static_cast<uint32_t>(random.Below(1000));
    ASSERT_THAT(square.Add({a, b}), IsOk());
  }
  const LeftOutSizes left_out = Oversize(square, TwoComponents(1000, 1200), KeptMost::kNumGraphs);
  // Half of 1200 each takes 0.36 of the square.
  const uint64_t kept = square.num_distinct() - left_out.size();
  EXPECT_GT(kept, square.num_distinct() * 35 / 100);
  EXPECT_LT(kept, square.num_distinct() * 38 / 100);
  Fingerprint everywhere;
  for (const SizeTuple& tuple : left_out.apart) everywhere.AddAll(tuple);
  EXPECT_EQ(everywhere.value(), 2842324013211381643U);
}

}  // namespace
}  // namespace packhouse
