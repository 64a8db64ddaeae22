#include "service/access/worker_pool.h"

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {
namespace {

TEST(WorkerPoolTest, RunsEveryJobEvenThoseQueuedAtTheEnd) {
  SimulatedClock clock;
  std::atomic<int> ran = 0;
  {
    WorkerPool pool(&clock, 3);
    for (int i = 0; i < 1000; ++i) pool.Submit("client", [&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 1000);
}

TEST(WorkerPoolTest, JobsRunSideBySide) {
  SimulatedClock clock;
  WorkerPool pool(&clock, 2);
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
  SimulatedClock clock;
  WorkerPool pool(&clock, 1);
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

// Turns that take 16 times as long: a sixteenth of them, but all the same time.
TEST(WorkerPoolTest, ClientsHaveTheSameTime) {
  SimulatedClock clock;
  auto pool = std::make_unique<WorkerPool>(&clock, 1);
  // Written by the pool's one thread.
  absl::Duration long_turns;
  absl::Duration short_turns;
  std::latch all_queued(1);
  std::latch done(1);
  bool ended = false;
  std::function<void()> take_long_turns = [&] {
    if (ended) return;
    clock.Advance(absl::Milliseconds(16));
    long_turns += absl::Milliseconds(16);
    pool->Submit("long", take_long_turns);
  };
  std::function<void(int)> take_short_turns = [&](int left) {
    clock.Advance(absl::Milliseconds(1));
    short_turns += absl::Milliseconds(1);
    if (left == 0) {
      ended = true;
      done.count_down();
      return;
    }
    pool->Submit("short", [&, left] { take_short_turns(left - 1); });
  };
  pool->Submit("first", [&] { all_queued.wait(); });
  for (int stream = 0; stream < 3; ++stream) pool->Submit("long", take_long_turns);
  pool->Submit("short", [&] { take_short_turns(1600); });
  all_queued.count_down();
  done.wait();
  pool.reset();  // Nothing is submitted any more.
  EXPECT_LE(absl::AbsDuration(long_turns - short_turns), absl::Milliseconds(4 * 16));
}

// Whoever's they are, and however many come.
TEST(WorkerPoolTest, FirstJobsGoBeforeOthersAndLeaveThemAShare) {
  SimulatedClock clock;
  std::string order;  // Written by the pool's one thread.
  {
    WorkerPool pool(&clock, 1);
    std::latch begun(1);
    std::latch all_queued(1);
    pool.Submit("held", [&] {
      begun.count_down();
      all_queued.wait();
    });
    begun.wait();
    for (int i = 0; i < 4; ++i) pool.Submit("many", [&] { order += 'o'; });
    for (int i = 0; i < 5; ++i) pool.SubmitFirst("many", [&] { order += 'f'; });
    pool.SubmitFirst("one", [&] { order += 'g'; });
    all_queued.count_down();
  }
  // Those that go first take turns as others do.
  EXPECT_EQ(order, "fgfofffooo");
}

// A job that has no memory goes on later, and the others go on.
TEST(WorkerPoolTest, AJobWithoutMemoryIsRunAgain) {
  SimulatedClock clock;
  std::atomic<int> tries = 0;
  std::atomic<int> hopeless = 0;
  std::atomic<int> others = 0;
  {
    WorkerPool pool(&clock, 2);
    pool.Submit("client", [&] {
      if (++tries < 3) throw std::bad_alloc();
    });
    pool.Submit("other", [&] {
      ++hopeless;
      throw std::length_error("more than there can be");
    });
    for (int i = 0; i < 100; ++i) pool.Submit("client", [&] { ++others; });
  }
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(hopeless, WorkerPool::kTries);
  EXPECT_EQ(others, 100);
}

}  // namespace
}  // namespace packhouse
