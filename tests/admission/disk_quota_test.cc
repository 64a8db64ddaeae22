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

// Takes 60 of 100 bytes, and 100 more beside them, which the store does not have yet. `end` ends
// the first append once the second has counted. Gives what becomes of the second.
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
  std::thread other([&] { second = quota.Take("team", 100).status(); });
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
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("160")));
  // The first has failed: there is room for all.
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

// What has no bytes has room where all is full, but not beyond; a quota may be lowered below what
// is there.
TEST(DiskQuotaTest, ALoweredQuotaRefusesWhatComesNext) {
  uint64_t most = 100;
  DiskQuota quota([&](absl::string_view) {
    Quotas quotas;
    quotas.disk_bytes = most;
    return quotas;
  });
  uint64_t stored = 0;
  quota.Add([&](absl::string_view) -> absl::StatusOr<uint64_t> { return stored; });
  EXPECT_THAT(quota.Take("team", 100), IsOk());
  stored = 100;
  EXPECT_THAT(quota.Take("team", 0), IsOk());
  most = 50;
  for (const uint64_t bytes : {0, 1}) {
    EXPECT_THAT(quota.Take("team", bytes),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(" is 50, ")))
        << bytes;
  }
  stored = 20;
  EXPECT_THAT(quota.Take("team", 30), IsOk());
}

TEST(DiskQuotaTest, WhatCannotBeCountedIsNotTaken) {
  DiskQuota quota([](absl::string_view) { return HundredBytes(); });
  quota.Add([](absl::string_view) -> absl::StatusOr<uint64_t> { return 0; });
  quota.Add(
      [](absl::string_view) -> absl::StatusOr<uint64_t> { return absl::UnavailableError("disk"); });
  EXPECT_THAT(quota.Take("team", 1), StatusIs(absl::StatusCode::kUnavailable, "disk"));
}

}  // namespace
}  // namespace packhouse
