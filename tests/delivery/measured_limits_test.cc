#include "service/engine/jobs/measured_limits.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/limited_log.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/recorded_log.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Of each rank group whose limits are measured: what they were, and what they are.
TEST(LogLimitsTest, TellsWhereTheLimitsOfMeasuredDevicesGo) {
  DatasetWorld world(300);
  world.Seal();
  EpochCatalog catalog(&world.store(), {});
  DeviceProfile device;
  device.components.resize(3);
  for (ComponentProfile& component : device.components) {
    component.max_rows = 64;
    component.relative_cost = 0;
  }
  device.components[0].bytes_per_row = 100;
  device.components[0].relative_cost = 1;
  device.fixed_cost = 1000;  // The larger the batches, the better.
  device.measured_as = "gin/sim";
  const std::vector<uint64_t> present = {62, 64, 64};
  for (const uint64_t memory_bytes : {6200, 6100}) {
    for (const size_t measured : {0, 1}) {
      SCOPED_TRACE(absl::StrCat(memory_bytes, " in group ", measured));
      EpochRequest request = DatasetWorld::Request();
      request.adaptive = true;
      request.rank_groups = {{{{64, 64, 20}}, std::nullopt, 1}, {{{64, 64, 20}}, std::nullopt, 1}};
      request.rank_groups[measured] = {{}, device, 1};
      request.rank_groups[measured].measured = device;
      request.rank_groups[measured].measured->memory_bytes = memory_bytes;
      request.rank_groups[measured].present = {present};
      PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
      RecordedLog recorded;
      LimitedLog log(&recorded, [] { return absl::UnixEpoch(); });
      LogLimits(nullptr, request, *epoch);
      LogLimits(&log, request, *epoch);
      const std::vector<uint64_t> now = epoch->shapes(measured)[0].capacities;
      ASSERT_THAT(recorded.lines(), SizeIs(1));
      EXPECT_EQ(now == present, memory_bytes == 6200);
      EXPECT_THAT(
          recorded.lines()[0],
          AllOf(StartsWith(absl::StrCat("info \"event\":\"limits ",
                                        now == present ? "stay" : "move", "\"")),
                HasSubstr("\"job\":\"job\",\"epoch\":0"), HasSubstr("\"from\":\"62 64 64\""),
                HasSubstr(absl::StrCat("\"to\":\"", absl::StrJoin(now, " "), "\"")),
                HasSubstr(absl::StrCat("\"", epoch->plan().why_shapes(), "\""))));
      // Nothing is told where nothing was measured.
      request.adaptive = false;
      request.rank_groups[measured] = {{{64, 64, 20}}, std::nullopt, 1};
      PH_ASSERT_OK_AND_ASSIGN(const auto declared, catalog.Prepare(request));
      LogLimits(&log, request, *declared);
      EXPECT_THAT(recorded.lines(), SizeIs(1));
    }
  }
}

// Of several measured rank groups, each by its first shape; what has no limit is told so.
TEST(LogLimitsTest, TellsOfEachMeasuredRankGroup) {
  DatasetWorld world(300);
  world.Seal();
  EpochCatalog catalog(&world.store(), {});
  EpochRequest request = DatasetWorld::Request();
  request.adaptive = true;
  request.padding = Padding::kNone;
  DeviceProfile device;
  device.components = {{.max_rows = 64}, {.max_rows = 0, .relative_cost = 0}, {.max_rows = 20}};
  device.measured_as = "gin/sim";
  request.rank_groups = {{{}, device, 1}, {{}, device, 1}};
  for (RankGroupRequest& rank_group : request.rank_groups) {
    rank_group.measured = device;
    rank_group.present = {{60, kUnlimited, 20}};
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.Prepare(request));
  RecordedLog recorded;
  LimitedLog log(&recorded, [] { return absl::UnixEpoch(); });
  LogLimits(&log, request, *epoch);
  ASSERT_THAT(recorded.lines(), SizeIs(1));
  const auto now = [&](size_t i) {
    const std::vector<uint64_t> capacities = epoch->shapes(i)[0].capacities;
    EXPECT_EQ(capacities[1], kUnlimited);
    return absl::StrCat(capacities[0], " - ", capacities[2]);
  };
  EXPECT_THAT(recorded.lines()[0],
              AllOf(HasSubstr("\"from\":\"60 - 20; 60 - 20\""),
                    HasSubstr(absl::StrCat("\"to\":\"", now(0), "; ", now(1), "\""))));
}

DeviceProfile MeasuredDevice(uint64_t memory_bytes) {
  DeviceProfile device;
  device.components = {{.max_rows = 64}, {.max_rows = 64}, {.max_rows = 20}};
  device.measured_as = "gin/sim";
  device.memory_bytes = memory_bytes;
  return device;
}
// The second rank group is measured.
EpochRequest RequestOfMeasured(uint64_t memory_bytes) {
  EpochRequest request = DatasetWorld::Request();
  request.rank_groups = {{{{64, 64, 20}}, std::nullopt, 1}, {{}, MeasuredDevice(0), 1}};
  request.rank_groups[1].measured = MeasuredDevice(memory_bytes);
  return request;
}

TEST(MeasuredLimitsTest, AnEpochKeepsItsLimits) {
  EpochIdentity identity;
  identity.rank_groups = {{{1, 2, 3}, 4}, {{5, 6, 7}, 8}};
  PlannerResult plan;
  plan.shapes = {{{10, 20, 30}}, {{50, 60, 70}, {40, 60, 70}}};
  using Shapes = std::vector<std::vector<uint64_t>>;
  EpochRequest request = RequestOfMeasured(100);
  KeepLimits(identity, &plan, request);
  EXPECT_EQ(request.rank_groups[0].present, Shapes());
  EXPECT_EQ(request.rank_groups[1].present, plan.shapes[1]);
  EXPECT_FALSE(request.rank_groups[1].measured.has_value());
  // Without its plan, and with that of fewer rank groups, the largest shape is known.
  plan.shapes.pop_back();
  for (const PlannerResult* const known :
       {static_cast<const PlannerResult*>(nullptr), static_cast<const PlannerResult*>(&plan)}) {
    request = RequestOfMeasured(100);
    KeepLimits(identity, known, request);
    EXPECT_EQ(request.rank_groups[0].present, Shapes());
    EXPECT_EQ(request.rank_groups[1].present, (Shapes{{5, 6, 7}}));
    EXPECT_FALSE(request.rank_groups[1].measured.has_value());
  }
  // Limits of as many rank groups only.
  identity.rank_groups.pop_back();
  request = RequestOfMeasured(100);
  KeepLimits(identity, nullptr, request);
  EXPECT_EQ(request.rank_groups[1].present, Shapes());
  EXPECT_TRUE(request.rank_groups[1].measured.has_value());
}

// What is measured first counts for all who ask for the epoch in the same words, as long as one of
// them has it.
TEST(MeasuredLimitsTest, WhatIsMeasuredFirstCountsForAll) {
  MeasuredLimits limits;
  const auto fix = [&](EpochRequest& request) { return limits.Fix(nullptr, nullptr, request); };
  const auto measured = [](const EpochRequest& request) {
    return request.rank_groups[1].measured->memory_bytes;
  };
  EpochRequest none = DatasetWorld::Request();
  EXPECT_FALSE(HasMeasuredDevice(none));
  EXPECT_EQ(fix(none), nullptr);
  EpochRequest of_no_job = RequestOfMeasured(100);
  EXPECT_TRUE(HasMeasuredDevice(of_no_job));
  of_no_job.key.job.clear();
  EXPECT_EQ(fix(of_no_job), nullptr);

  EpochRequest first = RequestOfMeasured(100);
  first.rank_groups[1].present = {{1, 2, 3}};
  auto held = fix(first);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(measured(first), 100U);
  EpochRequest second = RequestOfMeasured(200);
  EXPECT_EQ(fix(second), held);
  EXPECT_EQ(measured(second), 100U);
  EXPECT_EQ(second.rank_groups[1].present, first.rank_groups[1].present);
  // Others have their own.
  for (const int i : {0, 1, 2}) {
    EpochRequest other = RequestOfMeasured(300);
    if (i == 0) other.key.epoch += 1;
    if (i == 1) other.key.job += "s";
    if (i == 2) other.dataset += "s";
    EXPECT_NE(fix(other), held) << i;
    EXPECT_EQ(measured(other), 300U) << i;
  }
  held = nullptr;
  EpochRequest later = RequestOfMeasured(400);
  EXPECT_NE(fix(later), nullptr);
  EXPECT_EQ(measured(later), 400U);
}

}  // namespace
}  // namespace packhouse
