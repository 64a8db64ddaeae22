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

}  // namespace
}  // namespace packhouse
