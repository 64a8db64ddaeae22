// A namespace's bytes on the disk stay under its quota, whatever is under way.
#include "service/stores/limits/disk_quota.h"

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

Quotas HundredBytes() {
  Quotas quotas;
  quotas.disk_bytes = 100;
  return quotas;
}

// Takes 60 of 100 bytes, and 60 more beside them, which the store does not have yet. `end` ends the
// first append once the second has counted. Gives what becomes of the second.
absl::Status SecondOfTwo(const std::function<void(DiskQuota::Hold, uint64_t& stored)>& end) {
  absl::Mutex mutex;
  uint64_t stored = 0;
  int num_counts = 0;
  DiskQuota quota([](absl::string_view) { return HundredBytes(); });
  quota.Add([&](absl::string_view) -> absl::StatusOr<uint64_t> {
    absl::MutexLock lock(&mutex);
    ++num_counts;
    return stored;
  });
  absl::StatusOr<DiskQuota::Hold> first = quota.Take("team", 60);
  EXPECT_THAT(first, IsOk());
  absl::Status second;
  std::thread other([&] { second = quota.Take("team", 60).status(); });
  {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(
        +[](int* counts) { return *counts >= 2; }, &num_counts));
    end(*std::move(first), stored);
  }
  other.join();
  return second;
}

TEST(DiskQuotaTest, WhatIsUnderWayCounts) {
  EXPECT_THAT(SecondOfTwo([](DiskQuota::Hold, uint64_t& stored) { stored = 60; }),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("120")));
  // The first has failed: there is room.
  EXPECT_THAT(SecondOfTwo([](DiskQuota::Hold, uint64_t&) {}), IsOk());
}

TEST(DiskQuotaTest, WhatWasTakenCountsUntilItIsCountedAnew) {
  uint64_t stored = 0;
  int num_counts = 0;
  DiskQuota quota(
      [](absl::string_view where) { return where == "free" ? Quotas() : HundredBytes(); });
  quota.Add([&](absl::string_view) -> absl::StatusOr<uint64_t> {
    ++num_counts;
    return stored;
  });
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(quota.Take("team", 10), IsOk());
    stored += 10;
  }
  EXPECT_EQ(num_counts, 1);
  EXPECT_THAT(quota.Take("team", 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("101")));
  // Something was deleted.
  stored = 40;
  EXPECT_THAT(quota.Take("team", 60), IsOk());
  EXPECT_THAT(quota.Take("free", 1000), IsOk());
}

}  // namespace
}  // namespace packhouse
