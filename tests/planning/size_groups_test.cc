#include "service/algorithms/planning/size_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/limits.h"
#include "tests/planning/scarce_worlds.h"
#include "tests/support/fingerprint.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SizeGroups Groups(const SizeHistogram& histogram, const DeviceProfile& profile,
                  size_t most_groups) {
  WorkBudget budget;
  return FindGroups(histogram, profile, most_groups, budget).value();
}

uint64_t CountOf(const SizeHistogram& histogram, const std::vector<SizeTuple>& tuples) {
  uint64_t count = 0;
  for (const SizeTuple& tuple : tuples) count += histogram.CountOf(tuple);
  return count;
}

bool TakesAll(const std::vector<uint64_t>& capacities, const std::vector<SizeTuple>& tuples) {
  return std::all_of(tuples.begin(), tuples.end(),
                     [&](const SizeTuple& tuple) { return TakesSize(capacities, tuple); });
}

// For each allowed shape, which rows of the histogram it takes, as bits; without those that
// another one takes all of.
std::vector<uint32_t> TakenByShapes(const ScarceWorld& world,
                                    const std::vector<std::vector<uint64_t>>& allowed) {
  std::set<uint32_t> taken;
  for (const std::vector<uint64_t>& capacities : allowed) {
    uint32_t bits = 0;
    for (size_t row = 0; row < world.histogram.num_distinct(); ++row) {
      if (TakesSize(capacities, world.histogram.tuple(row))) bits |= uint32_t{1} << row;
    }
    taken.insert(bits);
  }
  std::vector<uint32_t> most;
  for (const uint32_t bits : taken) {
    if (std::none_of(taken.begin(), taken.end(),
                     [&](uint32_t other) { return other != bits && (bits & other) == bits; })) {
      most.push_back(bits);
    }
  }
  return most;
}

// The most graphs that this many shapes take, by trying all choices.
uint64_t MostTaken(const SizeHistogram& histogram, const std::vector<uint32_t>& by_shape,
                   size_t num_shapes, size_t first = 0, uint32_t taken = 0) {
  uint64_t most = 0;
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    if ((taken >> row & 1) != 0) most += histogram.count(row);
  }
  if (num_shapes == 0) return most;
  for (size_t i = first; i < by_shape.size(); ++i) {
    most =
        std::max(most, MostTaken(histogram, by_shape, num_shapes - 1, i + 1, taken | by_shape[i]));
  }
  return most;
}

// Every size is in one group, or is left out with the right reason; allowed limits take each group;
// no number of shapes takes more, and no fewer shapes take as much.
TEST(FindGroupsTest, KeepsTheMostThatSoManyShapesTake) {
  Fingerprint everywhere;
  int grouped = 0;
  int left_out = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const ScarceWorld world =
        random.Below(2) == 0 ? RandomScarceWorld(random) : RandomTornWorld(random);
    const auto allowed = AllowedCapacities(world.profile);
    if (allowed.empty()) continue;
    const size_t most_groups = random.Between(1, 4);
    const SizeGroups found = Groups(world.histogram, world.profile, most_groups);
    grouped += found.groups.size() > 1 ? 1 : 0;
    left_out += most_groups > 1 && !found.left_out.apart.empty() ? 1 : 0;

    ASSERT_LE(found.groups.size(), most_groups);
    uint64_t kept = 0;
    std::vector<SizeTuple> seen = found.left_out.alone;
    seen.insert(seen.end(), found.left_out.apart.begin(), found.left_out.apart.end());
    for (const std::vector<SizeTuple>& group : found.groups) {
      everywhere.Add(group.size());
      for (const SizeTuple& tuple : group) everywhere.AddAll(tuple);
      EXPECT_THAT(group, testing::Not(IsEmpty()));
      EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
      EXPECT_TRUE(std::any_of(allowed.begin(), allowed.end(),
                              [&](const auto& capacities) { return TakesAll(capacities, group); }));
      kept += CountOf(world.histogram, group);
      seen.insert(seen.end(), group.begin(), group.end());
    }
    std::vector<SizeTuple> all;
    for (const uint32_t row : world.histogram.SortedRows()) {
      all.emplace_back(world.histogram.tuple(row).begin(), world.histogram.tuple(row).end());
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, all);
    for (const SizeTuple& tuple : found.left_out.alone) {
      EXPECT_TRUE(ExcessOverProfile(tuple, world.profile).has_value());
    }
    for (const SizeTuple& tuple : found.left_out.apart) {
      EXPECT_FALSE(ExcessOverProfile(tuple, world.profile).has_value());
    }

    const std::vector<uint32_t> by_shape = TakenByShapes(world, allowed);
    EXPECT_EQ(kept, MostTaken(world.histogram, by_shape, most_groups));
    if (found.groups.size() > 1) {
      EXPECT_LT(MostTaken(world.histogram, by_shape, found.groups.size() - 1), kept);
    }
    // One shape: as without groups.
    WorkBudget budget;
    PH_ASSERT_OK_AND_ASSIGN(const LeftOutSizes of_one, FindOversize(world.histogram, world.profile,
                                                                    KeptMost::kNumGraphs, budget));
    const SizeGroups one = Groups(world.histogram, world.profile, 1);
    EXPECT_EQ(one.left_out.apart, of_one.apart);
    EXPECT_EQ(one.left_out.alone, of_one.alone);
    EXPECT_LE(one.groups.size(), 1);
    if (HasFailure()) return;
  }
  EXPECT_GT(grouped, 100);
  EXPECT_GT(left_out, 10);
  EXPECT_EQ(everywhere.value(), 15751083208683712653U);
}

DeviceProfile TwoComponents(uint64_t max_rows, uint64_t memory_bytes) {
  DeviceProfile profile;
  profile.components = {{1, max_rows, 1, 1, 1}, {1, max_rows, 1, 1, 1}, {1, 0, 1, 0, 0}};
  profile.memory_bytes = memory_bytes;
  return profile;
}

TEST(FindGroupsTest, TheCommonOnesComeFirst) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({10, 999}, 1), IsOk());
  ASSERT_THAT(histogram.Add({1000, 10}, 1'000'000), IsOk());
  ASSERT_THAT(histogram.Add({10, 10}, 7), IsOk());
  const SizeGroups found = Groups(histogram, TwoComponents(2048, 1500), 8);
  EXPECT_THAT(found.groups, ElementsAre(ElementsAre(SizeTuple{10, 10}, SizeTuple{1000, 10}),
                                        ElementsAre(SizeTuple{10, 999})));
  EXPECT_EQ(found.left_out.size(), 0);
}

// What takes the most at first is not what takes all in the end: three groups of a size each by
// greed, two of two sizes each.
TEST(FindGroupsTest, GreedDoesNotCostAShape) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({100, 10}, 3), IsOk());
  ASSERT_THAT(histogram.Add({70, 40}, 5), IsOk());
  ASSERT_THAT(histogram.Add({40, 70}, 5), IsOk());
  ASSERT_THAT(histogram.Add({10, 100}, 3), IsOk());
  const SizeGroups found = Groups(histogram, TwoComponents(2048, 140), 8);
  EXPECT_THAT(found.groups, SizeIs(2));
  EXPECT_EQ(Groups(histogram, TwoComponents(2048, 140), 2).left_out.size(), 0);
}

constexpr uint32_t kSizes = 20'000;

// Of which no two fit together in `kSizes` bytes.
SizeHistogram Line() {
  SizeHistogram line(2);
  for (uint32_t i = 1; i < kSizes; ++i) line.Add({i, kSizes - i}, 1 + i % 3).IgnoreError();
  return line;
}

// With many sizes the search ends, whatever it meets.
TEST(FindGroupsTest, ManySizes) {
  const SizeHistogram line = Line();
  const SizeGroups found = Groups(line, TwoComponents(kSizes, kSizes), 8);
  EXPECT_THAT(found.groups, SizeIs(8));
  EXPECT_EQ(found.left_out.apart.size(), kSizes - 1 - 8);
  Fingerprint everywhere;
  for (const auto& group : found.groups) everywhere.AddAll(group[0]);
  EXPECT_EQ(everywhere.value(), 1341340408771073549U);
}

// The caller may give up at any time: it is asked all along, and what it says is heeded then.
TEST(FindGroupsTest, GivenUpAtAnyStep) {
  // What takes long: one shape for many sizes; several; fewer that take all; and more graphs, of
  // few sizes of which no three fit together.
  SizeHistogram few(2);
  for (uint32_t i = 1; i < 60; ++i) ASSERT_THAT(few.Add({i, 60 - i}, 1 + i % 3), IsOk());
  struct Case {
    SizeHistogram histogram;
    DeviceProfile profile;
    size_t most_groups;
    int num_asked;  // Of all that is done.
  };
  const std::vector<Case> cases = {{Line(), TwoComponents(kSizes, kSizes), 1, 19},
                                   {Line(), TwoComponents(kSizes, kSizes), 8, 175},
                                   {few, TwoComponents(60, 62), 8, 56}};
  for (const auto& [histogram, profile, most_groups, num_asked] : cases) {
    SCOPED_TRACE(testing::Message() << histogram.num_distinct() << " sizes, " << most_groups);
    int asked = 0;
    WorkBudget patient(0, [&] { return ++asked < 0; });
    ASSERT_THAT(FindGroups(histogram, profile, most_groups, patient), IsOk())
        << "steps are not counted";
    const int all = asked;
    EXPECT_EQ(all, num_asked);
    for (int patience = 0; patience < all; patience += 1 + all / 6) {
      SCOPED_TRACE(testing::Message() << "patience=" << patience);
      asked = 0;
      WorkBudget impatient(0, [&] { return ++asked > patience; });
      EXPECT_THAT(FindGroups(histogram, profile, most_groups, impatient),
                  StatusIs(absl::StatusCode::kCancelled, HasSubstr("given up")));
      EXPECT_LE(asked, patience + 4) << "it ends at once";
    }
  }
}

TEST(LeadingShapesTest, NoEarlierShapeTakesThem) {
  EXPECT_THAT(LeadingShapes({}), IsEmpty());
  EXPECT_THAT(LeadingShapes({{4, 4}}), ElementsAre(0));
  EXPECT_THAT(LeadingShapes({{4, 4}, {4, 4}, {4, 2}, {2, 4}}), ElementsAre(0));
  EXPECT_THAT(LeadingShapes({{8, 2}, {4, 4}, {8, 1}, {4, kUnlimited}, {3, 9}}),
              ElementsAre(0, 1, 3));
}

}  // namespace
}  // namespace packhouse
