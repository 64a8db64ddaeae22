// Calls with one request, from the request to the answer, on pools that the test holds.
#include "service/server/calls/request_call.h"

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/histogram.pb.h"
#include "service/base/unsent_budget.h"
#include "service/server/calls/method_table.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;
using HistogramAnswer = v1::GetHistogramResponse;
using Deletion = v1::DeleteHistogramRequest;
using Deleted = v1::DeleteHistogramResponse;
using Deletes = std::function<absl::StatusOr<Deleted>(const Deletion&, RequestCall&)>;

constexpr Waits kAll[] = {Waits::kNothing, Waits::kTurns, Waits::kStore, Waits::kPlans,
                          Waits::kPlansUnlessReady};

// Has no memory for jobs.
class FullPool final : public JobPool {
 public:
  void Submit(const ClientId& /*client*/, std::function<void()> /*job*/) override {
    throw std::bad_alloc();
  }
};

class EndedCall final : public RequestCall {
 public:
  EndedCall(const CallContext& context, const MethodRow& row)
      : RequestCall(context, row, Headers()) {}
  using RequestCall::Begin;

  const absl::Status& Await() {
    ended_.wait();
    return status_;
  }
  bool has_ended() const { return ended_.try_wait(); }

 private:
  static CallHeaders& Headers() {
    static NoHeaders headers;
    return headers;
  }
  void End(absl::StatusOr<Given> given) override {
    ASSERT_FALSE(has_ended());
    status_ = given.status();
    EXPECT_TRUE(!given.ok() || std::holds_alternative<MessagePieces>(*given));
    ended_.count_down();
  }

  absl::Status status_;
  std::latch ended_{1};
};

class RequestCallTest : public ::testing::Test {
 protected:
  RequestCallTest() {
    context_.clock = &clock_;
    context_.call_pool = &call_pool_;
    context_.append_pool = &append_pool_;
    context_.planning_pool = &planning_pool_;
    context_.max_response_bytes = 1 << 20;
    context_.observer = &observer_;
    context_.client = "client";
  }
  ~RequestCallTest() override { EXPECT_EQ(num_requests_, 0); }

  std::shared_ptr<EndedCall> Begin(const MethodRow& row, const std::string& bytes = "") {
    const auto call = std::make_shared<EndedCall>(context_, row);
    call->Begin(std::make_unique<TextRequest>(bytes, &num_requests_));
    return call;
  }
  // Runs what waits on the pools of the test.
  void RunAll() {
    while (!call_pool_.empty()) call_pool_.RunOne();
    while (!append_pool_.empty()) append_pool_.RunOne();
  }
  MethodRow RowOf(Waits waits, Deletes function) {
    return Row(Method::kDeleteHistogram, waits, std::move(function));
  }
  MethodRow Counting(Waits waits) {
    return RowOf(waits, [this](const Deletion&, RequestCall&) {
      ++num_worked_;
      return Deleted();
    });
  }

  SimulatedClock clock_;
  UnsentObserver observer_;
  ManualPool call_pool_;
  ManualPool append_pool_;
  PlanningPool planning_pool_{&clock_, 1};
  CallContext context_;
  std::atomic<int> num_requests_ = 0;
  std::atomic<int> num_worked_ = 0;
};

TEST_F(RequestCallTest, ACallIsWorkedOnWhereItsRowSays) {
  for (const Waits waits : kAll) {
    const MethodRow row = Counting(waits);
    num_worked_ = 0;
    const auto call = Begin(row);
    EXPECT_EQ(!call_pool_.empty(), waits == Waits::kTurns || waits == Waits::kPlansUnlessReady);
    EXPECT_EQ(!append_pool_.empty(), waits == Waits::kStore);
    EXPECT_TRUE(call->has_ended() || waits != Waits::kNothing);
    RunAll();
    EXPECT_THAT(call->Await(), IsOk());
    EXPECT_EQ(num_worked_, 1);
  }
}

TEST_F(RequestCallTest, AnswersThatAreReadyNeedNoTurnAndOthersArePlanned) {
  for (const bool is_ready : {true, false}) {
    std::atomic<int> num_planned = 0;
    const MethodRow row = RowOf(Waits::kPlansUnlessReady,
                                [&](const Deletion&, RequestCall& call) -> absl::StatusOr<Deleted> {
                                  EXPECT_EQ(call.YieldTurn(), call.is_trial());
                                  EXPECT_EQ(call.LeaveTurn(), call.is_trial());
                                  if (!call.is_trial()) ++num_planned;
                                  if (call.is_trial() && !is_ready)
                                    return absl::CancelledError("not at once");
                                  return Deleted();
                                });
    const auto call = Begin(row);
    RunAll();
    EXPECT_THAT(call->Await(), IsOk());
    EXPECT_EQ(num_planned, is_ready ? 0 : 1);
  }
  // Any other error is the answer.
  const MethodRow row =
      RowOf(Waits::kPlansUnlessReady, [](const Deletion&, RequestCall&) -> absl::StatusOr<Deleted> {
        return absl::NotFoundError("none");
      });
  const auto call = Begin(row);
  RunAll();
  EXPECT_THAT(call->Await(), StatusIs(absl::StatusCode::kNotFound, _));
}

// An answer has its room from before it is written until the call has gone.
TEST_F(RequestCallTest, AnAnswerIsWithinTheBoundsOrRefused) {
  const MethodRow row =
      Row(Method::kGetHistogram, Waits::kTurns,
          [](const v1::GetHistogramRequest&, RequestCall&) -> absl::StatusOr<HistogramAnswer> {
            HistogramAnswer answer;
            answer.mutable_histogram()->set_tuples("0123456789");
            return answer;
          });
  HistogramAnswer answer;
  answer.mutable_histogram()->set_tuples("0123456789");
  const uint64_t bytes = answer.ByteSizeLong();
  for (const uint64_t room : {bytes, bytes - 1}) {
    UnsentBudget budget(room);
    context_.unsent_budget = &budget;
    auto call = Begin(row);
    RunAll();
    if (room == bytes) {
      EXPECT_THAT(call->Await(), IsOk());
    } else {
      EXPECT_EQ(call->Await(), absl::ResourceExhaustedError(
                                   absl::StrCat("--memory-budget: a response of ", bytes,
                                                " bytes beside the 0 "
                                                "that all calls have for theirs, at most ",
                                                room)));
    }
    EXPECT_EQ(budget.taken(), room == bytes ? bytes : 0);
    call.reset();
    EXPECT_EQ(budget.taken(), 0U);
    context_.unsent_budget = nullptr;
    context_.max_response_bytes = room;
    call = Begin(row);
    RunAll();
    EXPECT_EQ(call->Await().code(),
              room == bytes ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted);
    context_.max_response_bytes = 1 << 20;
  }
}

TEST_F(RequestCallTest, WhatTheServerLacksIsSaidOfRequestsThatCanBeRead) {
  for (const Waits waits : kAll) {
    MethodRow row = Counting(waits);
    row.lacks = absl::FailedPreconditionError("no folder");
    const auto call = Begin(row);
    const auto malformed = Begin(row, "\x0a\x64x");
    RunAll();
    EXPECT_THAT(call->Await(), StatusIs(absl::StatusCode::kFailedPrecondition, "no folder"));
    EXPECT_THAT(malformed->Await(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed")));
  }
  EXPECT_EQ(num_worked_, 0);
}

TEST_F(RequestCallTest, ACallThatNobodyWaitsForIsNotBegun) {
  for (const Waits waits : {Waits::kTurns, Waits::kStore, Waits::kPlansUnlessReady}) {
    const MethodRow row = Counting(waits);
    const auto call = Begin(row);
    call->Cancel();
    RunAll();
    EXPECT_THAT(call->Await(), StatusIs(absl::StatusCode::kCancelled, _));
  }
  EXPECT_EQ(num_worked_, 0);
  // Nor is one planned whose client goes while it is tried.
  const MethodRow row =
      RowOf(Waits::kPlansUnlessReady,
            [this](const Deletion&, RequestCall& call) -> absl::StatusOr<Deleted> {
              ++num_worked_;
              call.Cancel();
              return absl::CancelledError("not at once");
            });
  const auto call = Begin(row);
  RunAll();
  EXPECT_TRUE(call->has_ended());
  EXPECT_THAT(call->Await(), StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(num_worked_, 1);
}

TEST_F(RequestCallTest, ACallThatCannotBeQueuedEndsOnce) {
  FullPool full;
  context_.call_pool = context_.append_pool = &full;
  for (const Waits waits : {Waits::kTurns, Waits::kStore, Waits::kPlansUnlessReady}) {
    const MethodRow row = Counting(waits);
    EXPECT_THAT(Begin(row)->Await(), StatusIs(absl::StatusCode::kResourceExhausted, _));
  }
  EXPECT_EQ(num_worked_, 0);
}

TEST_F(RequestCallTest, RowsThatPlanCountAsSuchForTheGateUnlessTheySayOtherwise) {
  EXPECT_EQ(Counting(Waits::kNothing).CountsAs(), std::nullopt);
  EXPECT_EQ(Counting(Waits::kTurns).CountsAs(), Gate::CallKind::kQuick);
  EXPECT_EQ(Counting(Waits::kStore).CountsAs(), Gate::CallKind::kQuick);
  EXPECT_EQ(Counting(Waits::kPlans).CountsAs(), Gate::CallKind::kPlanning);
  MethodRow row = Counting(Waits::kPlansUnlessReady);
  EXPECT_EQ(row.CountsAs(), Gate::CallKind::kPlanning);
  row.counts_as = Gate::CallKind::kQuick;
  EXPECT_EQ(row.CountsAs(), Gate::CallKind::kQuick);
}

}  // namespace
}  // namespace packhouse
