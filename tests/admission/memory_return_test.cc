#include "service/base/memory_return.h"

#include <cstdint>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A process whose memory and load the test says.
class MemoryReturnTest : public testing::Test {
 protected:
  // `seconds` pass; of each the process works `load`. Returns how often memory was given back.
  int Pass(int seconds, double load) {
    int returns = 0;
    for (int s = 0; s < seconds; ++s) {
      now_ += MemoryReturn::kInterval;
      reading_.cpu_time += load * MemoryReturn::kInterval;
      returns += memory_return_.Tick(now_).has_value();
    }
    return returns;
  }

  MemoryReturn::Reading reading_ = {50 * kMiB, 0, absl::Seconds(3)};
  uint64_t in_use_ = 50 * kMiB;  // What trimming leaves.
  absl::Time now_ = absl::UnixEpoch();
  MemoryReturn memory_return_{[this] { return reading_; },
                              [this] { reading_.resident_bytes = in_use_; }};
};

TEST_F(MemoryReturnTest, GivesBackOnceTheLoadHasGone) {
  EXPECT_EQ(Pass(20, 0.0), 0) << "there is nothing to give back";
  reading_.resident_bytes = 900 * kMiB;
  EXPECT_EQ(Pass(600, 0.2), 0) << "there is work";
  EXPECT_EQ(Pass(4, 0.05), 0) << "work may come again";
  EXPECT_EQ(Pass(20, 0.05), 1);
  EXPECT_EQ(reading_.resident_bytes, 50 * kMiB);
}

TEST_F(MemoryReturnTest, DoesNotTryAgainWhatDidNotHelp) {
  Pass(10, 0.0);
  reading_.resident_bytes = in_use_ = 300 * kMiB;
  EXPECT_EQ(Pass(1000, 0.0), 1);
  // What is in use becomes less, and more again.
  reading_.resident_bytes = 100 * kMiB;
  EXPECT_EQ(Pass(100, 0.0), 0);
  reading_.resident_bytes = 300 * kMiB;
  in_use_ = 90 * kMiB;
  EXPECT_EQ(Pass(100, 0.0), 1);
}

TEST_F(MemoryReturnTest, WaitsForWhatCallsHold) {
  Pass(10, 0.0);
  reading_.resident_bytes = in_use_ = 300 * kMiB;
  reading_.held_bytes = 245 * kMiB;
  EXPECT_EQ(Pass(100, 0.0), 0) << "all of it is held";
  // The call ends, without work.
  reading_.held_bytes = 0;
  in_use_ = 60 * kMiB;
  EXPECT_EQ(Pass(10, 0.0), 1);
  EXPECT_EQ(reading_.resident_bytes, 60 * kMiB);
}

}  // namespace
}  // namespace packhouse
