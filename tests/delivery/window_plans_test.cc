#include "service/engine/jobs/window_plans.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;

const absl::Status& Passing() {
  static const absl::Status* const status = new absl::Status(absl::UnavailableError("away"));
  return *status;
}
const absl::Status& Lasting() {
  static const absl::Status* const status = new absl::Status(absl::DataLossError("lost"));
  return *status;
}

TEST(WindowPlansTest, OnePlansForAll) {
  WindowPlans plans;
  AwaitedWindow a, b, c;
  EXPECT_EQ(*plans.Need(3, a), true);
  EXPECT_EQ(*plans.Need(3, a), false);
  EXPECT_EQ(*plans.Need(3, b), false);
  EXPECT_EQ(*plans.Need(4, c), true);
  EXPECT_FALSE(plans.BeginAhead(3));
  plans.Ended(3, absl::OkStatus());
  // It may be needed anew, when it was let go of.
  EXPECT_TRUE(plans.BeginAhead(3));
  EXPECT_EQ(*plans.Need(3, a), false);
}

TEST(WindowPlansTest, AFailureThatMayPassIsToldOnceToEachWhoWaited) {
  WindowPlans plans;
  AwaitedWindow a, b, c, d;
  EXPECT_EQ(*plans.Need(3, a), true);
  EXPECT_EQ(*plans.Need(3, b), false);
  plans.Ended(3, Passing());
  EXPECT_FALSE(plans.BeginAhead(3));
  EXPECT_EQ(*plans.Need(4, c), true);
  EXPECT_THAT(plans.Need(3, a), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(plans.Need(3, b), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_EQ(*plans.Need(3, d), true);
  // Who was told waits for the next attempt like others.
  EXPECT_EQ(*plans.Need(3, a), false);
  plans.Ended(3, absl::OkStatus());
  EXPECT_EQ(*plans.Need(3, b), true);
}

// Another's attempt may begin before all were told of the last one.
TEST(WindowPlansTest, WhoWaitedIsToldOfALaterAttemptsFailure) {
  WindowPlans plans;
  AwaitedWindow a, b;
  EXPECT_EQ(*plans.Need(3, a), true);
  plans.Ended(3, Passing());
  EXPECT_EQ(*plans.Need(3, b), true);
  EXPECT_EQ(*plans.Need(3, a), false);
  plans.Ended(3, Passing());
  EXPECT_THAT(plans.Need(3, a), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(plans.Need(3, b), StatusIs(absl::StatusCode::kUnavailable, _));
}

TEST(WindowPlansTest, OtherFailuresStayUntilAWorkerJoins) {
  WindowPlans plans;
  AwaitedWindow a, b;
  EXPECT_TRUE(plans.BeginAhead(3));
  plans.Ended(3, Lasting());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(plans.Need(3, a), StatusIs(absl::StatusCode::kDataLoss, _));
    EXPECT_THAT(plans.Need(3, b), StatusIs(absl::StatusCode::kDataLoss, _));
  }
  EXPECT_EQ(*plans.Need(4, b), true);
  plans.ForgetFailures();
  EXPECT_EQ(*plans.Need(3, a), true);
}

TEST(WindowPlansTest, WhatPassesIsWhatAStoreOrABudgetMayHaveAMomentLater) {
  for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kResourceExhausted,
                          absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kAborted,
                          absl::StatusCode::kCancelled}) {
    EXPECT_TRUE(WindowPlans::MayPass(absl::Status(code, "")));
  }
  for (const auto code : {absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition,
                          absl::StatusCode::kNotFound, absl::StatusCode::kInvalidArgument,
                          absl::StatusCode::kOutOfRange, absl::StatusCode::kInternal}) {
    EXPECT_FALSE(WindowPlans::MayPass(absl::Status(code, "")));
  }
}

}  // namespace
}  // namespace packhouse
