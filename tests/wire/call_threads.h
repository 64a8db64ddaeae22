// Streaming calls with all the threads that they have in a server.
#ifndef PACKHOUSE_TESTS_WIRE_CALL_THREADS_H_
#define PACKHOUSE_TESTS_WIRE_CALL_THREADS_H_

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "service/access/worker_pool.h"
#include "service/server/calls/streaming_call.h"
#include "tests/support/simulated_clock.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {

// A server for calls, with a thread that has time pass.
class Calls {
 public:
  Calls() : time_([this] { HaveTimePass(); }) {}
  ~Calls() {
    is_over_ = true;
    clock_.CallAt(clock_.Now(), [] {});
    time_.join();
    EXPECT_EQ(observer_.num_open(), 0);
    EXPECT_EQ(observer_.responses(), 0);
    EXPECT_EQ(observer_.bytes(), 0);
    EXPECT_EQ(unsent_.taken(), 0U);
    EXPECT_EQ(working_.held(), 0U);
    EXPECT_TRUE(gate_.WaitUntilEmpty(absl::InfinitePast()));
  }

  CallContext Context() {
    CallContext context;
    context.clock = &clock_;
    context.stream_pool = &stream_pool_;
    context.call_pool = &call_pool_;
    context.planning_pool = &planning_pool_;
    context.gate = &gate_;
    context.max_response_bytes = 1 << 20;
    context.observer = &observer_;
    context.unsent_budget = &unsent_;
    context.client = "client";
    context.working = &working_;
    return context;
  }

  // Does what gRPC does with a call: reads, writes, perhaps a cancellation, each on a thread of its
  // own. `next_request` is asked for requests until it gives none.
  void Serve(StreamingCall& call, ScriptedLink& link, bool cancels,
             const std::function<std::unique_ptr<RequestBytes>()>& next_request) {
    using State = ScriptedLink::State;
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
      while (link.Await(&State::is_reading)) {
        if (link.EndRead()) call.OnRead(next_request());
      }
    });
    threads.emplace_back([&] {
      while (link.Await(&State::is_writing)) {
        if (link.EndWrite()) call.OnWritten(true);
      }
    });
    if (cancels) threads.emplace_back([&] { call.OnCancel(); });
    for (std::thread& thread : threads) thread.join();
    if (link.EndRead()) call.OnRead(nullptr);
    call.OnDone();
  }

  SimulatedClock& clock() { return clock_; }
  Gate& gate() { return gate_; }

 private:
  // While somebody waits for a time, and not faster than the pool does what there is to do: nobody
  // is to wait for too long because a thread was not given a core.
  void HaveTimePass() {
    while (!is_over_) {
      clock_.AwaitTimer();
      clock_.Advance(absl::Milliseconds(1));
      std::latch is_done(1);
      stream_pool_.Submit("client", [&is_done] { is_done.count_down(); });
      is_done.wait();
    }
  }

  SimulatedClock clock_;
  UnsentObserver observer_;
  UnsentBudget unsent_{8 << 20};
  MemoryBudget working_{20'000};
  Gate gate_{{}};
  WorkerPool stream_pool_{&clock_, 2};
  WorkerPool call_pool_{&clock_, 1};
  PlanningPool planning_pool_{&clock_, 1};
  std::atomic<bool> is_over_ = false;
  std::thread time_;
};

// Runs side by side, on a thread each.
template <typename Function>
void SideBySide(int n, Function function) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back([function, i] { function(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_WIRE_CALL_THREADS_H_
