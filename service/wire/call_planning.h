// Planning for a streaming call that has begun, beside the thread at work on it.
#ifndef PACKHOUSE_SERVICE_WIRE_CALL_PLANNING_H_
#define PACKHOUSE_SERVICE_WIRE_CALL_PLANNING_H_

#include <functional>
#include <memory>
#include <utility>

#include "service/admission/call_context.h"
#include "service/admission/planning_pool.h"

namespace packhouse {

// Where a stream's handler has its planning done.
class StreamPlanning {
 public:
  // Asks `given_up` now and then, and ends when it is true. May outlive the stream.
  using Job = std::function<void(const std::function<bool()>& given_up)>;

  virtual ~StreamPlanning() = default;

  // Runs `job` once, on another thread or on this one, and then wakes the stream. May be called
  // once. Throws std::bad_alloc if there is no memory; then the job does not run.
  virtual void Submit(Job job) = 0;
};

// On the planning pool, in the turns of the call's client. Held by the call and by its handler.
class CallPlanning final : public StreamPlanning {
 public:
  explicit CallPlanning(const CallContext& context)
      : pool_(context.planning_pool),
        turn_(std::make_shared<PlanningTurn>(context.planning_pool, context.client)) {}

  // To be called before the first Submit(), with the call's Waker().
  void set_waker(std::function<void()> wake) { wake_ = std::move(wake); }

  void Submit(Job job) override {
    pool_->Submit(turn_, [turn = turn_, wake = wake_, job = std::move(job)] {
      job([&turn] { return turn->GivenUp(); });
      wake();
    });
  }

  // Nobody waits for the job any more. Thread-safe.
  void Cancel() { turn_->Cancel(); }

 private:
  PlanningPool* const pool_;
  const std::shared_ptr<PlanningTurn> turn_;
  std::function<void()> wake_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_CALL_PLANNING_H_
