// One streaming call with all that it touches, on one thread.
#ifndef PACKHOUSE_TESTS_WIRE_CALL_STAGE_H_
#define PACKHOUSE_TESTS_WIRE_CALL_STAGE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "service/access/fair_bound.h"
#include "service/base/unsent_budget.h"
#include "service/server/calls/call_record.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/streaming_call.h"
#include "tests/support/simulated_clock.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {

class Stage {
 public:
  explicit Stage(uint64_t budget = uint64_t{64} << 20, FairBound* open_calls = nullptr)
      : unsent_(budget) {
    CallContext context;
    context.open_calls = open_calls;
    context.clock = &clock;
    context.stream_pool = &pool;
    context.opening_pool = &opening_pool;
    context.gate = &gate;
    context.observer = &observer;
    context.unsent_budget = &unsent_;
    context.client = "client";
    context.record = record;
    call = std::make_shared<StreamingCall>(context, Method::kPack, &link, [this] { ++gave_up; });
  }
  ~Stage() {
    EXPECT_EQ(num_requests, 0);
    EXPECT_EQ(unsent_.taken(), 0U);
  }

  void Begin() { call->Begin(std::make_unique<ScriptedWork>(&clock, &script)); }
  void RunAll() {
    while (!pool.empty()) pool.RunOne();
  }
  void Read(const std::string& text) {
    ASSERT_TRUE(link.EndRead());
    call->OnRead(std::make_unique<TextRequest>(text, &num_requests));
  }
  void Write(bool ok = true) {
    ASSERT_TRUE(link.EndWrite());
    call->OnWritten(ok);
  }
  // As gRPC does once it has finished. Then nothing is held any more, and nothing happens.
  void Done() {
    RunAll();
    ASSERT_TRUE(link.state().status);
    if (link.EndRead()) call->OnRead(nullptr);
    if (link.EndCancel()) call->OnCancel();
    const std::function<void()> wake = call->Waker();
    const std::weak_ptr<StreamingCall> weak = call;
    call->OnDone();
    EXPECT_EQ(observer.num_open(), 0);
    EXPECT_EQ(observer.responses(), 0);
    EXPECT_EQ(observer.bytes(), 0);
    EXPECT_TRUE(gate.WaitUntilEmpty(absl::InfinitePast()));
    call->Wake();
    clock.Advance(absl::Hours(1));
    EXPECT_TRUE(pool.empty());
    call.reset();
    EXPECT_TRUE(weak.expired());
    wake();
  }

  SimulatedClock clock;
  ManualPool pool;
  ManualPool opening_pool;
  Gate gate{{.max_streams = 1}};
  UnsentObserver observer;
  ScriptedLink link;
  Script script;
  std::atomic<int> num_requests = 0;
  int gave_up = 0;
  std::shared_ptr<CallRecord> record = std::make_shared<CallRecord>();
  std::shared_ptr<StreamingCall> call;

 private:
  UnsentBudget unsent_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_WIRE_CALL_STAGE_H_
