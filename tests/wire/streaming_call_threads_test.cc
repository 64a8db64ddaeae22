// Streaming calls with all the threads that they have: for ThreadSanitizer, and for wake-ups that
// are lost: then it does not end.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/calls/streaming_call.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/call_threads.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {
namespace {

using ::testing::AnyOf;

void ExpectInOrder(const std::vector<std::string>& sent) {
  for (size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(sent[i], absl::StrCat(i));
}

// The status of many calls. It has no message, so that they share no memory: ThreadSanitizer does
// not see how Debian's Abseil counts who shares it.
absl::Status Draining() { return absl::UnavailableError(""); }

constexpr int kCallsAtOnce = 4;
constexpr uint64_t kRounds = 6;

TEST(StreamingCallThreadsTest, ResponsesGoOnceInOrderWhoeverWakesIt) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    Calls calls;
    SideBySide(kCallsAtOnce, [&](int i) {
      constexpr uint64_t kResponses = 2000;
      const bool cancels = round % 4 == 3 && i == 0;
      ScriptedLink link;
      Script script;
      script.seed = round;
      script.max_bytes = i < 2 ? 200 : 100'000;
      auto call = std::make_shared<StreamingCall>(calls.Context(), Method::kLoad, &link);
      ASSERT_TRUE(call->Enter());
      // What wakes it may do so at any time.
      std::thread producer([&script, wake = call->Waker(), i] {
        Random random(static_cast<uint64_t>(i));
        while (script.produced < kResponses) {
          script.produced += random.Below(i == 3 ? 2 : 100);
          wake();
          if (random.Below(32) == 0) std::this_thread::yield();
        }
        script.is_complete = true;
        wake();
      });
      call->Begin(std::make_unique<ScriptedWork>(&calls.clock(), &script));
      calls.Serve(*call, link, cancels, [] { return nullptr; });
      call.reset();
      producer.join();
      ExpectInOrder(link.sent());
      EXPECT_TRUE(script.is_gone);
      if (cancels && !link.state().status->ok()) {
        EXPECT_THAT(*link.state().status, StatusIs(absl::StatusCode::kCancelled, ::testing::_));
      } else {
        EXPECT_THAT(*link.state().status, IsOk());
        EXPECT_EQ(link.sent().size(), script.produced);
      }
    });
  }
}

TEST(StreamingCallThreadsTest, EveryRequestIsTakenAndAnswered) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    Calls calls;
    std::atomic<int> num_requests = 0;
    SideBySide(kCallsAtOnce, [&](int i) {
      constexpr uint64_t kRequests = 150;
      ScriptedLink link;
      Script script;
      script.seed = round * kCallsAtOnce + static_cast<uint64_t>(i);
      script.takes_requests = true;
      script.may_block = i == 0;
      script.no_room = i == 1 ? 20 : 0;
      script.busy = i == 2 ? 50 : 0;
      auto call = std::make_shared<StreamingCall>(calls.Context(), Method::kPack, &link);
      ASSERT_TRUE(call->Enter());
      call->Begin(std::make_unique<ScriptedWork>(&calls.clock(), &script));
      uint64_t sent = 0;
      calls.Serve(*call, link, /*cancels=*/false, [&]() -> std::unique_ptr<RequestBytes> {
        if (sent == kRequests) return nullptr;
        ++sent;
        return std::make_unique<TextRequest>(sent % 50 == 0 ? "2 1" : "3", &num_requests);
      });
      ExpectInOrder(link.sent());
      EXPECT_THAT(*link.state().status, IsOk());
      EXPECT_EQ(script.accepted, kRequests);
      EXPECT_EQ(link.sent().size(), 3 * kRequests);
    });
    EXPECT_EQ(num_requests, 0);
  }
}

// While the server aborts them, and looks for idle ones.
TEST(StreamingCallThreadsTest, EveryCallEndsOnceThoughItIsStopped) {
  for (uint64_t round = 0; round < kRounds; ++round) {
    Calls calls;
    std::thread server([&] {
      for (uint64_t i = 0; i < 200; ++i) {
        calls.gate().EndIdleStreams(calls.clock().Now());
        if (i == 10 * round) calls.gate().AbortStreams(Draining());
        std::this_thread::yield();
      }
    });
    SideBySide(kCallsAtOnce, [&](int) {
      ScriptedLink link;
      Script script;
      script.produced = 1'000'000'000;
      // Those that were begun after the server has aborted all.
      script.meanwhile = [&] {
        if (script.given >= 5000) calls.gate().AbortStreams(Draining());
      };
      auto call = std::make_shared<StreamingCall>(calls.Context(), Method::kLoad, &link);
      ASSERT_TRUE(call->Enter());
      call->Begin(std::make_unique<ScriptedWork>(&calls.clock(), &script));
      std::thread canceller([&] {
        if (link.Await(&ScriptedLink::State::is_cancelled)) call->OnCancel();
      });
      calls.Serve(*call, link, /*cancels=*/false, [] { return nullptr; });
      canceller.join();
      ExpectInOrder(link.sent());
      EXPECT_THAT(*link.state().status,
                  AnyOf(StatusIs(absl::StatusCode::kUnavailable, ::testing::_),
                        StatusIs(absl::StatusCode::kCancelled, ::testing::_)));
    });
    server.join();
  }
}

}  // namespace
}  // namespace packhouse
