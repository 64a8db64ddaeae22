#include "service/rpc/worker_pool.h"

#include <atomic>
#include <latch>

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
  std::latch first_waits(1);
  std::latch done(2);
  pool.Submit([&] {
    first_waits.wait();
    done.count_down();
  });
  pool.Submit([&] {
    first_waits.count_down();
    done.count_down();
  });
  done.wait();
}

}  // namespace
}  // namespace packhouse::rpc
