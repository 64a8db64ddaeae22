// What the seeded execution promises to tests that use it.
#include "tests/support/seeded_execution.h"

#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "service/access/planning_pool.h"
#include "service/access/worker_pool.h"

namespace packhouse {
namespace {

using Trace = SeededExecution::Trace;

// Three threads that add to a number, each in two steps.
std::pair<int, Trace> Add(uint64_t seed) {
  SeededExecution execution(seed);
  int sum = 0;
  execution.Run([&] {
    const auto threads = BeginThreads(3, [&] {
      const int read = sum;
      Pause(absl::ZeroDuration());
      sum = read + 1;
      execution.Note(absl::StrCat("sum ", sum));
    });
  });
  return {sum, execution.trace()};
}

// A seed has one order, and seeds have all of them.
TEST(SeededExecutionTest, TheSeedAloneDecides) {
  std::set<int> sums;
  std::set<uint64_t> digests;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto [sum, trace] = Add(seed);
    EXPECT_EQ(std::pair(sum, trace), Add(seed)) << seed;
    EXPECT_EQ(trace.notes.size(), 3U);
    sums.insert(sum);
    digests.insert(trace.digest);
  }
  EXPECT_EQ(sums, (std::set<int>{1, 2, 3}));
  EXPECT_GT(digests.size(), 20U);
}

// Waits end by the execution's time: never before their end, and at it unless the machine is slow.
TEST(SeededExecutionTest, TimeGoesOnWhenNobodyElseCan) {
  int num_exact = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SeededExecution execution(seed);
    Clock& clock = execution.clock();
    const absl::Time start = clock.Now();
    bool is_exact = true;
    const auto expect_time = [&](absl::Duration since_start) {
      EXPECT_GE(clock.Now(), start + since_start) << seed;
      is_exact = is_exact && clock.Now() == start + since_start;
    };
    execution.Run([&] {
      absl::Mutex mutex;
      absl::Notification called;
      bool is_set = false;
      clock.CallAt(start + absl::Hours(3), [&] {
        expect_time(absl::Hours(3));
        called.Notify();
      });
      const Thread pauses([&] {
        Pause(absl::Hours(2));
        expect_time(absl::Hours(2));
        absl::MutexLock lock(&mutex);
        is_set = true;
      });
      EXPECT_FALSE(called.WaitForNotificationWithTimeout(absl::Hours(1)));
      expect_time(absl::Hours(1));
      absl::MutexLock lock(&mutex);
      EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&is_set), absl::Hours(9)));
      expect_time(absl::Hours(2));
      const auto never = [] { return false; };
      EXPECT_FALSE(mutex.AwaitWithTimeout(absl::Condition(&never), absl::Hours(9)));
      expect_time(absl::Hours(11));
      EXPECT_TRUE(called.WaitForNotificationWithTimeout(absl::Hours(1)));
    });
    num_exact += is_exact;
  }
  EXPECT_GT(num_exact, 20);
}

// One that waits, for a time or for others, while it has another mutex: who wants that waits too.
TEST(SeededExecutionTest, MutexesThatAreHeldInWaitsAreWaitedFor) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SeededExecution execution(seed);
    int sum = 0;
    execution.Run([&] {
      absl::Mutex outer;
      absl::Mutex inner;
      bool may_go_on = false;
      const auto threads = BeginThreads(3, [&] {
        absl::MutexLock held(&outer);
        absl::MutexLock lock(&inner);
        inner.Await(absl::Condition(&may_go_on));
        const int read = sum;
        inner.AwaitWithTimeout(absl::Condition(
                                   +[](int* /*none*/) { return false; }, &sum),
                               absl::Seconds(1));
        Pause(absl::ZeroDuration());
        sum = read + 1;
      });
      Pause(absl::Seconds(1));
      absl::MutexLock lock(&inner);
      may_go_on = true;
    });
    EXPECT_EQ(sum, 3) << seed;
  }
}

// Two mutexes that are taken in both orders: some seed finds that this never ends, and says so.
TEST(SeededExecutionDeathTest, SaysThatNobodyCanGoOn) {
  const auto run = [] {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      SeededExecution execution(seed);
      execution.Run([&] {
        absl::Mutex a;
        absl::Mutex b;
        const Thread other([&] {
          absl::MutexLock first(&b);
          absl::MutexLock second(&a);
        });
        absl::MutexLock first(&a);
        absl::MutexLock second(&b);
      });
    }
  };
  EXPECT_DEATH(run(), "no thread can ever go on, after .* steps\n.*waits for a mutex");
}

// The pools run each job once, to its end, whatever is cancelled and hurried.
TEST(SeededExecutionTest, PoolsRunEachJobOnce) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SeededExecution execution(seed);
    std::vector<int> runs(40);
    execution.Run([&] {
      WorkerPool workers(&execution.clock(), 3);
      PlanningPool planning(&execution.clock(), 2);
      std::vector<std::shared_ptr<PlanningTurn>> turns;
      for (int i = 0; i < 20; ++i) {
        const ClientId client = absl::StrCat(i % 3);
        workers.Submit(client, [&runs, i] {
          Pause(absl::Milliseconds(i));
          ++runs[i];
        });
        turns.push_back(std::make_shared<PlanningTurn>(
            &planning, client,
            i % 4 == 0 ? PlanningTurn::Urgency::kBackground : PlanningTurn::Urgency::kCall));
        planning.Submit(turns.back(), [&runs, i, turn = turns.back()] {
          for (int slice = 0; slice < 3 && !turn->YieldTurn(); ++slice)
            Pause(absl::Milliseconds(15));
          ++runs[20 + i];
        });
      }
      for (int i = 0; i < 20; i += 3) turns[i]->Hurry();
      for (int i = 0; i < 20; i += 5) turns[i]->Cancel();
    });
    EXPECT_EQ(runs, std::vector<int>(40, 1)) << seed;
  }
}

}  // namespace
}  // namespace packhouse
