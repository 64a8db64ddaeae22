#include "service/rpc/worker_pool.h"

#include <atomic>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace packhouse::rpc {
namespace {

TEST(WorkerPoolTest, RunsEveryJobEvenThoseQueuedAtTheEnd) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.Submit([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(WorkerPoolTest, JobsRunSideBySide) {
  WorkerPool pool(2);
  absl::Notification first_waits;
  absl::BlockingCounter done(2);
  pool.Submit([&] {
    first_waits.WaitForNotification();
    done.DecrementCount();
  });
  pool.Submit([&] {
    first_waits.Notify();
    done.DecrementCount();
  });
  done.Wait();
}

}  // namespace
}  // namespace packhouse::rpc
