// Streaming calls, step by step: who makes responses where, what is read when, how a call ends.
#include "service/server/calls/streaming_call.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/calls/idle_timer.h"
#include "service/server/calls/open_calls.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/call_stage.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OpenCallsTest, ListsThoseThatAreOpenTheLongestOpenFirst) {
  OpenCalls calls;
  std::vector<std::shared_ptr<OpenCalls::Entry>> entries;
  for (const char* peer : {"a", "b", "c"}) {
    OpenCallInfo call;
    call.peer = peer;
    entries.push_back(calls.Enter(std::move(call)));
  }
  entries[1]->SetResource("graphs");
  const auto told = [&calls] {
    std::vector<std::string> words;
    for (const OpenCallInfo& call : calls.List()) words.push_back(call.peer + call.resource);
    return words;
  };
  EXPECT_THAT(told(), ElementsAre("a", "bgraphs", "c"));
  entries.erase(entries.begin());
  EXPECT_THAT(told(), ElementsAre("bgraphs", "c"));
  entries.clear();
  EXPECT_THAT(told(), IsEmpty());
}

TEST(StreamingCallTest, ARefusedCallEndsWithTheGatesStatus) {
  Stage stage;
  stage.gate.Close();
  EXPECT_FALSE(stage.call->Enter());
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kUnavailable, _));
  stage.Done();
}

TEST(StreamingCallTest, ACallThatIsRefusedBeforehandIsNotAdmitted) {
  Stage stage;
  CallContext context = stage.call->context();
  context.refusal = absl::UnauthenticatedError("who is it?");
  const auto call = std::make_shared<StreamingCall>(context, Method::kPack, &stage.link);
  EXPECT_FALSE(call->Enter());
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kUnauthenticated, _));
  call->OnDone();
}

// Its client may never read why: nothing waits for that.
TEST(StreamingCallTest, ACallBeyondAllThatMayBeOpenIsCancelled) {
  FairBound open_calls("calls", "all that are open", {1, 1});
  PH_ASSERT_OK_AND_ASSIGN(const FairBound::Place place, open_calls.Enter("another"));
  Stage stage(uint64_t{64} << 20, &open_calls);
  EXPECT_FALSE(stage.call->Enter());
  EXPECT_TRUE(stage.link.state().is_cancelled);
  EXPECT_THAT(*stage.link.state().status,
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("calls")));
  stage.Done();
}

TEST(StreamingCallTest, ACallWithoutWorkEndsWithItsStatus) {
  Stage stage;
  ASSERT_TRUE(stage.call->Enter());
  stage.call->Begin(absl::NotFoundError("no such epoch"));
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kNotFound, "no such epoch"));
  stage.Done();
}

// Who has heard of the end may open the next stream, whatever the quota.
TEST(StreamingCallTest, PlacesInNamespacesAreFreeBeforeTheStatusIsSent) {
  for (const bool cancelled : {false, true}) {
    Stage stage;
    auto place = std::make_shared<int>(1);
    const std::weak_ptr<int> taken = place;
    stage.record->places.push_back(std::move(place));
    ASSERT_TRUE(stage.call->Enter());
    if (cancelled) stage.call->OnCancel();
    EXPECT_FALSE(taken.expired());
    stage.link.while_finishing = [&] { EXPECT_TRUE(taken.expired()); };
    stage.call->Begin(absl::NotFoundError("no such epoch"));
    stage.RunAll();
    ASSERT_TRUE(stage.link.state().status);
    stage.Done();
  }
}

// If the client is too slow, the latest progress is kept and the rest is dropped.
TEST(StreamingCallTest, ProgressTakesThePlaceOfWhatWaits) {
  Stage stage;
  stage.script.produced = 1;
  stage.script.is_complete = true;
  ASSERT_TRUE(stage.call->Enter());
  for (const uint64_t number : {10, 20, 30}) stage.call->Report(NumberedResponse(number, 5));
  EXPECT_EQ(stage.observer.responses(), 2);
  stage.Begin();
  stage.RunAll();
  while (!stage.link.state().status) {
    stage.Write();
    stage.RunAll();
  }
  EXPECT_THAT(stage.link.sent(), ElementsAre("10", "30", "0"));
  EXPECT_THAT(*stage.link.state().status, IsOk());
  stage.Done();
}

// Progress that finds no room is not told, and the call goes on; a response without room ends it.
TEST(StreamingCallTest, OnlyProgressMayFindNoRoom) {
  {
    Stage stage(/*budget=*/20);
    stage.script.is_complete = true;
    ASSERT_TRUE(stage.call->Enter());
    stage.call->Report(NumberedResponse(10, 100));
    EXPECT_EQ(stage.observer.responses(), 0);
    stage.call->Report(NumberedResponse(20, 5));
    stage.Begin();
    stage.RunAll();
    stage.Write();
    stage.RunAll();
    EXPECT_THAT(stage.link.sent(), ElementsAre("20"));
    EXPECT_THAT(*stage.link.state().status, IsOk());
    stage.Done();
  }
  Stage stage(/*budget=*/0);
  stage.script.produced = 1;
  stage.script.is_complete = true;
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  stage.RunAll();
  EXPECT_THAT(stage.link.sent(), IsEmpty());
  EXPECT_THAT(*stage.link.state().status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("bytes beside the 0 that all calls have for theirs, at most 0")));
  stage.Done();
}

// The function that makes the work hears of it. The call ends when that function has returned.
TEST(StreamingCallTest, ACallIsStoppedBeforeItHasWork) {
  Stage stage;
  ASSERT_TRUE(stage.call->Enter());
  stage.call->OnCancel();
  EXPECT_EQ(stage.gave_up, 1);
  EXPECT_FALSE(stage.link.state().status);
  stage.Begin();
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(stage.script.given, 0U);
  stage.Done();
}

// Nobody is at work on it, and there is nothing to end it with but to cut it off.
TEST(StreamingCallTest, ACallWhoseOneRequestDoesNotComeIsCancelled) {
  for (const bool is_idle : {false, true}) {
    Stage stage;
    ASSERT_TRUE(stage.call->Enter());
    bool has_come = false;
    stage.call->Receive([&](std::unique_ptr<RequestBytes> request) {
      has_come = true;
      EXPECT_EQ(request, nullptr);
      stage.call->Begin(absl::CancelledError("no request"));
    });
    EXPECT_TRUE(stage.link.state().is_reading);
    if (is_idle) {
      stage.gate.EndIdleStreams(stage.clock.Now() - absl::Seconds(1));
      EXPECT_FALSE(stage.link.state().is_cancelled);
      stage.gate.EndIdleStreams(stage.clock.Now());
    } else {
      stage.gate.AbortStreams(absl::UnavailableError("draining"));
    }
    ASSERT_TRUE(stage.link.EndCancel());
    stage.call->OnCancel();
    ASSERT_TRUE(stage.link.EndRead());
    stage.call->OnRead(nullptr);
    EXPECT_TRUE(has_come);
    stage.RunAll();
    EXPECT_THAT(
        *stage.link.state().status,
        StatusIs(is_idle ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable, _));
    stage.Done();
  }
}

// To send a large response takes long, and often happens within StartWrite().
TEST(StreamingCallTest, EventsDoNotWaitWhileTheLinkSends) {
  Stage stage;
  stage.script.produced = 2;
  stage.script.is_complete = true;
  std::vector<std::thread> others;
  stage.link.while_sending = [&] {
    const auto heard = std::make_shared<absl::Notification>();
    others.emplace_back([call = stage.call, heard] {
      call->Wake();
      heard->Notify();
    });
    EXPECT_TRUE(heard->WaitForNotificationWithTimeout(absl::Seconds(10)));
  };
  ASSERT_TRUE(stage.call->Enter());
  stage.call->Report(NumberedResponse(10, 5));
  stage.Begin();
  stage.RunAll();
  while (!stage.link.state().status) {
    stage.Write();
    stage.RunAll();
  }
  for (std::thread& other : others) other.join();
  others.clear();
  EXPECT_THAT(stage.link.sent(), ElementsAre("10", "0", "1"));
  stage.Done();
}

TEST(StreamingCallTest, TheNextRequestIsReadWhileOneIsAtWork) {
  Stage stage;
  stage.script.takes_requests = true;
  bool was_reading = false;
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  EXPECT_TRUE(stage.pool.empty()) << "a turn without a request";
  stage.script.meanwhile = [&] { was_reading = stage.link.state().is_reading; };
  stage.Read("0");
  EXPECT_FALSE(stage.link.state().is_reading);
  stage.RunAll();
  EXPECT_TRUE(was_reading);
  EXPECT_EQ(stage.script.accepted, 1U);
  stage.call->OnCancel();
  stage.Done();
}

// It is tried again every 10 ms, and the next one waits meanwhile.
TEST(StreamingCallTest, ARequestWaitsForRoom) {
  for (const bool comes : {false, true}) {
    Stage stage;
    stage.script.takes_requests = true;
    stage.script.no_room = 100;
    ASSERT_TRUE(stage.call->Enter());
    stage.Begin();
    stage.Read("1");
    stage.RunAll();
    stage.Read("2");
    stage.RunAll();
    EXPECT_FALSE(stage.link.state().is_reading) << "a third";
    for (int tries = 0; tries < 1000; ++tries) {
      EXPECT_FALSE(stage.link.state().status);
      if (comes && tries == 999) stage.script.no_room = 0;
      stage.clock.Advance(absl::Milliseconds(10));
      stage.RunAll();
    }
    if (comes) {
      EXPECT_EQ(stage.script.accepted, 2U);
      EXPECT_TRUE(stage.link.state().is_reading);
      while (stage.link.EndWrite()) stage.call->OnWritten(true);
      // The next one may wait as long.
      stage.script.no_room = 100;
      stage.Read("3");
      stage.RunAll();
      EXPECT_FALSE(stage.link.state().status);
      stage.call->OnCancel();
    } else {
      EXPECT_THAT(*stage.link.state().status,
                  StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
    }
    if (stage.link.EndWrite()) stage.call->OnWritten(false);
    stage.Done();
  }
}

// Quick ones are answered by the thread that tells of them, which then has the next one read; slow
// ones, and those that may block, are not.
TEST(StreamingCallTest, QuickRequestsAreAnsweredWhereTheyAreReceived) {
  enum class Kind { kQuick, kSlow, kMayBlock };
  for (const Kind kind : {Kind::kQuick, Kind::kSlow, Kind::kMayBlock}) {
    Stage stage;
    stage.script.takes_requests = true;
    stage.script.may_block = kind == Kind::kMayBlock;
    if (kind == Kind::kSlow) {
      stage.script.meanwhile = [&] { stage.clock.Advance(Pace::kQuick); };
    }
    ASSERT_TRUE(stage.call->Enter());
    stage.Begin();
    for (int i = 0; i < Pace::kEnough; ++i) {
      stage.Read("0");
      EXPECT_FALSE(stage.pool.empty());
      stage.RunAll();
    }
    stage.Read("1");
    EXPECT_EQ(stage.pool.empty(), kind == Kind::kQuick);
    EXPECT_EQ(stage.script.given, kind == Kind::kQuick ? 1U : 0U);
    EXPECT_EQ(stage.link.state().is_reading, kind == Kind::kQuick);
    stage.RunAll();
    EXPECT_EQ(stage.script.given, 1U);
    stage.call->OnCancel();
    stage.RunAll();
    stage.Write();
    stage.Done();
  }
}

// It has other calls too.
TEST(StreamingCallTest, WhatTheLinksThreadHasNotDoneSoonGoesOnOnThePool) {
  Stage stage;
  stage.script.takes_requests = true;
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  for (int i = 0; i < Pace::kEnough; ++i) {
    stage.Read("0");
    stage.RunAll();
  }
  stage.script.meanwhile = [&] { stage.clock.Advance(Pace::kQuick / 4); };
  stage.Read("100");
  EXPECT_FALSE(stage.pool.empty());
  EXPECT_LT(stage.script.given, 5U);
  stage.RunAll();
  stage.script.meanwhile = [] {};
  EXPECT_EQ(stage.script.given, 100U);
  stage.Read("0");
  EXPECT_FALSE(stage.pool.empty()) << "the one before was slow";
  stage.call->OnCancel();
  stage.RunAll();
  stage.Write();
  stage.Done();
}

// A turn ends after a millisecond, and others have theirs.
TEST(StreamingCallTest, EndlessWorkTakesTurns) {
  Stage stage;
  stage.script.busy = 100;
  stage.script.meanwhile = [&] { stage.clock.Advance(absl::Microseconds(300)); };
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  for (int turns = 0; turns < 10; ++turns) {
    const absl::Time begun = stage.clock.Now();
    stage.pool.RunOne();
    EXPECT_FALSE(stage.pool.empty());
    EXPECT_LE(stage.clock.Now() - begun, absl::Microseconds(1300));
  }
  stage.call->OnCancel();
  stage.Done();
}

TEST(StreamingCallTest, AnIdleCallEndsAfterWhatItOwes) {
  Stage stage;
  stage.script.takes_requests = true;
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  stage.Read("0 1000000");
  stage.RunAll();
  stage.gate.EndIdleStreams(stage.clock.Now() - absl::Seconds(1));
  EXPECT_TRUE(stage.pool.empty()) << "something has gone since";
  stage.clock.Advance(absl::Seconds(2));
  stage.gate.EndIdleStreams(stage.clock.Now() - absl::Seconds(1));
  stage.RunAll();
  ASSERT_THAT(stage.link.sent(), ElementsAre("0"));
  EXPECT_FALSE(stage.link.state().status);
  stage.Write();
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status,
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--stream-idle-timeout")));
  stage.Done();
}

TEST(StreamingCallTest, WhatACallWasClosedWithComesBeforeAnErrorOfItsWork) {
  for (const bool is_idle : {false, true}) {
    Stage stage;
    stage.script.takes_requests = true;
    ASSERT_TRUE(stage.call->Enter());
    stage.Begin();
    stage.RunAll();
    stage.clock.Advance(absl::Seconds(2));
    if (is_idle) stage.gate.EndIdleStreams(stage.clock.Now() - absl::Seconds(1));
    stage.script.error = 100;
    if (!is_idle) stage.Read("1");
    stage.RunAll();
    EXPECT_TRUE(stage.script.has_failed);
    EXPECT_THAT(*stage.link.state().status,
                is_idle
                    ? StatusIs(absl::StatusCode::kUnavailable, HasSubstr("--stream-idle-timeout"))
                    : StatusIs(absl::StatusCode::kDataLoss, HasSubstr("as the script says")));
    stage.Done();
  }
}

// Nothing but one of them has happened in the last second each time.
TEST(StreamingCallTest, ACallIsNotIdleWhateverHasGoneEitherWay) {
  Stage stage;
  stage.script.takes_requests = true;
  const auto expect_kept_by = [&](const char* what) {
    stage.RunAll();
    stage.gate.EndIdleStreams(stage.clock.Now() - absl::Seconds(1));
    EXPECT_TRUE(stage.pool.empty()) << what;
    stage.clock.Advance(absl::Seconds(2));
  };
  ASSERT_TRUE(stage.call->Enter());
  stage.clock.Advance(absl::Seconds(2));
  stage.Begin();
  expect_kept_by("its beginning");
  stage.Read("0");
  expect_kept_by("a request");
  stage.Read("0 5");
  expect_kept_by("a request that is answered later");
  expect_kept_by("a response on its way");
  stage.Write();
  expect_kept_by("a response that was sent");
  int asked = 0;
  stage.script.meanwhile = [&] { stage.script.busy = ++asked == 1 ? 100 : 0; };
  stage.call->Wake();
  expect_kept_by("what goes another way");
  EXPECT_EQ(asked, 2);
  EXPECT_THAT(stage.link.sent(), ElementsAre("0"));
  stage.call->OnCancel();
  stage.Done();
}

TEST(StreamingCallTest, AnIdleCallWhoseClientTakesNothingIsCancelled) {
  Stage stage;
  stage.script.produced = 1;
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  stage.RunAll();
  stage.clock.Advance(absl::Seconds(2));
  stage.gate.EndIdleStreams(stage.clock.Now());
  stage.RunAll();
  EXPECT_TRUE(stage.link.EndCancel());
  stage.call->OnCancel();
  stage.Write(false);
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kCancelled, _));
  stage.Done();
}

TEST(IdleTimerTest, EndsCallsThatAreIdleUntilItIsStopped) {
  for (const bool stops : {false, true}) {
    Stage stage;
    stage.script.takes_requests = true;
    const auto timer = std::make_shared<IdleTimer>(&stage.clock, &stage.gate, absl::Seconds(40));
    timer->Arm();
    ASSERT_TRUE(stage.call->Enter());
    stage.Begin();
    for (int quarter = 0; quarter < 4; ++quarter) {
      EXPECT_TRUE(stage.pool.empty()) << quarter;
      if (quarter == 3 && stops) timer->Stop();
      stage.clock.Advance(absl::Seconds(10));
    }
    EXPECT_EQ(stage.pool.empty(), stops);
    if (stops) stage.call->OnCancel();
    stage.Done();
  }
}

TEST(StreamingCallTest, WorkIsAskedAgainWhenItSaid) {
  Stage stage;
  stage.script.takes_requests = true;
  ASSERT_TRUE(stage.call->Enter());
  stage.Begin();
  stage.Read("0 5");
  stage.RunAll();
  stage.clock.Advance(absl::Milliseconds(4));
  EXPECT_TRUE(stage.pool.empty());
  stage.clock.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(stage.pool.empty());
  stage.RunAll();
  EXPECT_THAT(stage.link.sent(), ElementsAre("0"));
  stage.Write();
  stage.call->OnCancel();
  stage.Done();
}

// What it was about is then only to be destroyed: it is asked nothing more.
TEST(StreamingCallTest, WorkThatFindsNoMemoryIsNotAskedAgain) {
  // First it is asked for a response, then given the request, then asked for the response.
  for (int fails_at = 1; fails_at <= 3; ++fails_at) {
    Stage stage;
    stage.script.takes_requests = true;
    ASSERT_TRUE(stage.call->Enter());
    stage.Begin();
    int asked = 0;
    stage.script.meanwhile = [&] {
      if (++asked == fails_at) stage.script.no_memory = 100;
    };
    stage.Read("3");
    stage.RunAll();
    EXPECT_EQ(asked, fails_at);
    EXPECT_THAT(*stage.link.state().status,
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("memory")));
    EXPECT_THAT(stage.link.sent(), IsEmpty());
    stage.Done();
  }
}

}  // namespace
}  // namespace packhouse
