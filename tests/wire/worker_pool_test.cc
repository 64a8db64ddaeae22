#include "service/rpc/worker_pool.h"

#include <atomic>
#include <functional>
#include <latch>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace packhouse::rpc {
namespace {

TEST(WorkerPoolTest, RunsEveryJobEvenThoseQueuedAtTheEnd) {
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.Submit("client", [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(WorkerPoolTest, JobsRunSideBySide) {
  WorkerPool pool(2);
  std::latch first_waits(1);
  std::latch done(2);
  pool.Submit("client", [&] {
    first_waits.wait();
    done.count_down();
  });
  pool.Submit("client", [&] {
    first_waits.count_down();
    done.count_down();
  });
  done.wait();
}

// Three streams of one client and one of another, which queue again after each turn: each client
// has every other turn.
TEST(WorkerPoolTest, ClientsTakeTurns) {
  WorkerPool pool(1);
  std::vector<char> turns;  // Written by the pool's one thread.
  std::latch all_queued(1);
  std::latch done(4);
  std::function<void(char, int)> take_turns = [&](char client, int left) {
    turns.push_back(client);
    if (left == 0) {
      done.count_down();
      return;
    }
    pool.Submit(std::string(1, client), [&, client, left] { take_turns(client, left - 1); });
  };
  pool.Submit("first", [&] { all_queued.wait(); });
  for (int stream = 0; stream < 3; ++stream) pool.Submit("m", [&] { take_turns('m', 100); });
  pool.Submit("o", [&] { take_turns('o', 100); });
  all_queued.count_down();
  done.wait();
  ASSERT_GE(turns.size(), 202U);
  for (size_t turn = 0; turn < 202; ++turn) EXPECT_EQ(turns[turn], turn % 2 == 0 ? 'm' : 'o');
}

}  // namespace
}  // namespace packhouse::rpc
