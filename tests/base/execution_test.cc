#include "service/base/execution.h"

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

// Each turn comes after a pause that it is asked for, also when one had no memory; and the end
// waits for the turn that is under way.
TEST(RepeatingTest, WorksUntilItIsDestroyed) {
  absl::Mutex mutex;
  int pauses = 0;
  int turns = 0;
  std::atomic<bool> is_working = false;
  auto repeating = std::make_unique<Repeating>(
      [&] {
        absl::MutexLock lock(&mutex);
        ++pauses;
        return absl::Milliseconds(1);
      },
      [&] {
        is_working = true;
        Pause(absl::ZeroDuration());
        is_working = false;
        absl::MutexLock lock(&mutex);
        EXPECT_EQ(++turns, pauses);
        if (turns == 2) throw std::bad_alloc();
      });
  {
    absl::MutexLock lock(&mutex);
    const auto have_been = [&] { return turns >= 5; };
    mutex.Await(absl::Condition(&have_been));
  }
  repeating = nullptr;
  EXPECT_FALSE(is_working);
  const int last = turns;
  EXPECT_EQ(pauses, last + 1);
}

TEST(ThreadTest, IsWaitedForUnlessItIsDetached) {
  std::atomic<int> done = 0;
  {
    Thread first([&] { ++done; });
    EXPECT_TRUE(first.is_begun());
    Thread moved = std::move(first);
    EXPECT_FALSE(first.is_begun());  // NOLINT(bugprone-use-after-move)
    moved = Thread([&] { done += 10; });
    moved.Join();
    EXPECT_FALSE(moved.is_begun());
    moved.Join();
    EXPECT_EQ(done, 11);
  }
  std::atomic<int> together = 0;
  for (Thread& thread : BeginThreads(4, [&] { ++together; })) thread.Join();
  EXPECT_EQ(together, 4);
  absl::Notification end;
  absl::Notification has_ended;
  Thread([&] {
    end.WaitForNotification();
    has_ended.Notify();
  }).Detach();
  end.Notify();
  has_ended.WaitForNotification();
}

TEST(WakeTest, IsTriedUntilThereIsMemory) {
  int tries = 0;
  Wake([&] {
    if (++tries < 5) throw std::bad_alloc();
  });
  EXPECT_EQ(tries, 5);
  Wake([&] {
    ++tries;
    throw std::bad_alloc();
  });
  EXPECT_EQ(tries, 1005);
}

}  // namespace
}  // namespace packhouse
