#include "service/base/unsent_budget.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/server/calls/unsent_count.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

class NoObserver final : public RpcObserver {
 public:
  void OnStarted(Method) override {}
  void OnFinished(Method, absl::StatusCode, absl::Duration) override {}
  void OnPlanned(absl::Duration, double) override {}
};

// As a reactor does: reserve, then add. False if the response is refused.
bool Make(UnsentCount& call, uint64_t bytes) {
  if (!call.Reserve(bytes).ok()) return false;
  call.Add(bytes);
  return true;
}

TEST(UnsentBudgetTest, RefusalNamesFlagValueAndBound) {
  UnsentBudget budget(100);
  ASSERT_THAT(budget.Reserve(70, 70), IsOk());
  const absl::Status status = budget.Reserve(31, 31);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              testing::AllOf(testing::HasSubstr("--memory-budget"), testing::HasSubstr("31 bytes"),
                             testing::HasSubstr("the 70 that"), testing::HasSubstr("at most 100")));
  EXPECT_EQ(budget.taken(), 70);
  EXPECT_THAT(budget.Reserve(30, 30), IsOk());
  EXPECT_THAT(budget.Reserve(1, 1), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  budget.Give(100);
  EXPECT_EQ(budget.taken(), 0);
  EXPECT_THAT(budget.Reserve(~uint64_t{0}, 1),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
}

TEST(UnsentBudgetTest, WhoeverReadsIsServedWhileOthersHoldAllTheyCan) {
  NoObserver observer;
  UnsentBudget budget(1000);
  std::deque<UnsentCount> slow;
  for (int i = 0; i < 4; ++i) {
    UnsentCount& call = slow.emplace_back(&observer, Method::kLoad, &budget);
    do {
      ASSERT_TRUE(Make(call, 100));
    } while (call.has_room());
  }
  UnsentCount fast(&observer, Method::kLoad, &budget);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(fast.has_room());
    ASSERT_TRUE(Make(fast, 100));
    EXPECT_FALSE(fast.has_room());
    fast.Remove(100);
  }
  fast.RemoveAll();
  for (UnsentCount& call : slow) call.RemoveAll();
  EXPECT_EQ(budget.taken(), 0);
}

TEST(UnsentBudgetTest, HalfIsForResponsesMadeAheadAndNotAByteMore) {
  UnsentBudget budget(1000);
  for (const uint64_t taken : {0, 400, 500}) {
    budget.Take(taken);
    EXPECT_TRUE(budget.HasRoomAhead(500 - taken));
    EXPECT_FALSE(budget.HasRoomAhead(501 - taken));
    budget.Give(taken);
  }
}

TEST(UnsentBudgetTest, ResponsesMadeAheadLeaveHalfOfItToCallsThatAreYetToCome) {
  NoObserver observer;
  UnsentBudget budget(1000);
  UnsentCount greedy(&observer, Method::kPack, &budget);
  int made = 0;
  while (greedy.has_room()) {
    ASSERT_TRUE(Make(greedy, 100));
    ++made;
  }
  EXPECT_EQ(made, 5);
  std::deque<UnsentCount> others;
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Make(others.emplace_back(&observer, Method::kPack, &budget), 100));
  }
  UnsentCount late(&observer, Method::kPack, &budget);
  EXPECT_FALSE(Make(late, 100));
  others.front().RemoveAll();
  EXPECT_TRUE(Make(late, 100));
  for (UnsentCount& call : others) call.RemoveAll();
  greedy.RemoveAll();
  late.RemoveAll();
  EXPECT_EQ(budget.taken(), 0);
}

TEST(UnsentBudgetTest, WithoutBudgetThereIsAlwaysRoom) {
  NoObserver observer;
  UnsentCount call(&observer, Method::kPack);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(call.has_room());
    EXPECT_TRUE(Make(call, uint64_t{1} << 40));
  }
}

// What is taken is, for each call, the more of what it holds and its largest response.
TEST(UnsentBudgetTest, TakenIsWhatCallsHoldOrHaveReserved) {
  struct Call {
    std::unique_ptr<UnsentCount> count;
    std::deque<uint64_t> held;
    uint64_t largest = 0;
  };
  NoObserver observer;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    UnsentBudget budget(1000);
    std::vector<Call> calls(1 + random.Below(6));
    for (Call& call : calls) {
      call.count = std::make_unique<UnsentCount>(&observer, Method::kLoad, &budget);
    }
    for (int step = 0; step < 200; ++step) {
      Call& call = calls[random.Below(calls.size())];
      switch (random.Below(8)) {
        case 0:
          call.count->RemoveAll();
          call.held.clear();
          call.largest = 0;
          break;
        case 1:
        case 2:
        case 3:
          if (call.held.empty()) break;
          call.count->Remove(call.held.front());
          call.held.pop_front();
          break;
        default: {
          if (!call.count->has_room()) break;
          const uint64_t bytes = 1 + random.Below(300);
          if (!Make(*call.count, bytes)) break;
          call.held.push_back(bytes);
          call.largest = std::max(call.largest, bytes);
        }
      }
      uint64_t taken = 0;
      for (const Call& each : calls) {
        uint64_t held = 0;
        for (const uint64_t bytes : each.held) held += bytes;
        taken += std::max(held, each.largest);
      }
      ASSERT_EQ(budget.taken(), taken);
      // Beyond it by no more than one response that was larger than those before it.
      ASSERT_LE(taken, 1000);
    }
  }
}

TEST(UnsentBudgetTest, ThreadsNeverReserveMoreThanThereIs) {
  UnsentBudget budget(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 10'000; ++i) {
        if (!budget.Reserve(300, 300).ok()) continue;
        EXPECT_LE(budget.taken(), 1000);
        budget.Give(300);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.taken(), 0);
}

}  // namespace
}  // namespace packhouse
