// Planning for a streaming call that has begun, beside the thread at work on it.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_PLANNING_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_PLANNING_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/access/planning_pool.h"
#include "service/server/calls/call_context.h"

namespace packhouse {

// Where a stream's handler has its planning done.
class StreamPlanning {
 public:
  // Asks `is_cancelled` now and then, and ends when it is true. May outlive the stream.
  using Job = std::function<void(const std::function<bool()>& is_cancelled)>;

  virtual ~StreamPlanning() = default;

  // Runs `job` once, on another thread or on this one, and then wakes the stream. May be called
  // again once the job has ended. Throws std::bad_alloc if there is no memory; then the job does
  // not run.
  virtual void Submit(Job job) = 0;
};

// On the planning pool, in the turns of the call's client. Held by the call and by its handler.
class CallPlanning final : public StreamPlanning {
 public:
  explicit CallPlanning(const CallContext& context)
      : pool_(context.planning_pool), client_(context.client), record_(context.record) {}

  // To be called before the first Submit(), with the call's Waker().
  void set_waker(std::function<void()> wake) { wake_ = std::move(wake); }

  void Submit(Job job) override {
    // What the stream works on is known by now, and stays.
    std::string where(NamespaceOf(record_ == nullptr ? absl::string_view() : record_->resource));
    const std::shared_ptr<PlanningTurn> turn = NextTurn();
    pool_->Submit(turn, [turn, wake = wake_, where = std::move(where), job = std::move(job)] {
      turn->YieldTurnIn(where);
      job([&turn] { return turn->YieldTurn(); });
      wake();
    });
  }

  // Nobody waits for the job any more, nor for later ones. Thread-safe.
  void Cancel() {
    std::shared_ptr<PlanningTurn> turn;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      turn = turn_;
    }
    if (turn != nullptr) turn->Cancel();
  }

 private:
  // Each job has a turn of its own.
  std::shared_ptr<PlanningTurn> NextTurn() {
    auto turn = std::make_shared<PlanningTurn>(pool_, client_);
    absl::MutexLock lock(&mutex_);
    if (cancelled_) turn->Cancel();
    turn_ = turn;
    return turn;
  }

  PlanningPool* const pool_;
  const ClientId client_;
  absl::Mutex mutex_;
  std::shared_ptr<PlanningTurn> turn_ ABSL_GUARDED_BY(mutex_);  // The latest; null: none yet.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  const std::shared_ptr<const CallRecord> record_;  // May be null.
  std::function<void()> wake_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_PLANNING_H_
