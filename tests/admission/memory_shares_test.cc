#include "service/base/memory_shares.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

TEST(MemorySharesTest, SharesAddUpToNoMoreThanTheBudget) {
  for (const uint64_t budget :
       {512 * kMebibyte, 513 * kMebibyte, uint64_t{4} << 30, (uint64_t{1} << 44) - 1}) {
    SCOPED_TRACE(testing::Message() << "budget=" << budget);
    const auto shares = DivideMemory(budget, 64 * kMebibyte, 64, 0);
    ASSERT_THAT(shares.status(), IsOk());
    EXPECT_LE(shares->pending_bytes + shares->unsent_bytes + shares->received_bytes +
                  shares->working_bytes,
              budget);
    // A whole message fits into each, beside another.
    EXPECT_GE(shares->unsent_bytes, 2 * 64 * kMebibyte);
    EXPECT_GE(shares->received_bytes, 2 * 64 * kMebibyte);
    EXPECT_GE(shares->pending_bytes, 2 * 64 * kMebibyte);
    EXPECT_GE(shares->working_bytes, 2 * 64 * kMebibyte);
  }
}

TEST(MemorySharesTest, WindowsOfAllStreamsFitUnlessTheyWouldBeTiny) {
  for (const uint64_t streams : {1, 64, 1024, 2048}) {
    SCOPED_TRACE(testing::Message() << "streams=" << streams);
    const auto shares = DivideMemory(uint64_t{4} << 30, 64 * kMebibyte, streams, 0);
    ASSERT_THAT(shares.status(), IsOk());
    EXPECT_GE(shares->receive_window_bytes, 65536);
    EXPECT_LE(shares->receive_window_bytes, 1 << 20);
    EXPECT_LE(shares->receive_window_bytes * streams, shares->received_bytes / 2);
  }
  const auto many = DivideMemory(uint64_t{4} << 30, 64 * kMebibyte, 1'000'000, 0);
  ASSERT_THAT(many.status(), IsOk());
  EXPECT_EQ(many->receive_window_bytes, 65536);
}

TEST(MemorySharesTest, BudgetMustHoldEightMessages) {
  EXPECT_THAT(DivideMemory(8 * kMebibyte, kMebibyte, 1, 0).status(), IsOk());
  const absl::Status status = DivideMemory(8 * kMebibyte - 1, kMebibyte, 1, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::AllOf(testing::HasSubstr("--memory-budget: 8388607"),
                                               testing::HasSubstr("at least 8388608"),
                                               testing::HasSubstr("--max-message-bytes")));
}

TEST(MemorySharesTest, WhatCallsAndConnectionsTakeIsSetApartWhereItIsMuch) {
  const auto few = DivideMemory(512 * kMebibyte, kMebibyte, 1, kMostBytesBeside);
  ASSERT_THAT(few.status(), IsOk());
  EXPECT_EQ(few->working_bytes, 128 * kMebibyte);
  const auto many = DivideMemory(512 * kMebibyte, kMebibyte, 1, kMostBytesBeside + 256 * kMebibyte);
  ASSERT_THAT(many.status(), IsOk());
  EXPECT_EQ(many->working_bytes, 64 * kMebibyte);
  EXPECT_THAT(
      DivideMemory(512 * kMebibyte, kMebibyte, 1, kMostBytesBeside + 505 * kMebibyte).status(),
      StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("--max-connections")));
}

}  // namespace
}  // namespace packhouse
