// Ends idle streams.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_IDLE_TIMER_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_IDLE_TIMER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/server/calls/gate.h"

namespace packhouse {

// One timer for all streams of a gate. It checks them four times in each `timeout`, and at least
// once a minute. (A timer for each stream would outlive the stream.) Make it by std::make_shared:
// the clock may hold it a moment longer than its owner. Thread-safe.
class IdleTimer : public std::enable_shared_from_this<IdleTimer> {
 public:
  IdleTimer(Clock* clock, Gate* gate, absl::Duration timeout)
      : clock_(clock), timeout_(timeout), gate_(gate) {}

  // Starts checking, unless the timeout is infinite.
  void Arm();

  // To be called before the gate is destroyed. Waits until the timer no longer uses it.
  void Stop();

 private:
  static constexpr absl::Duration kMaxPeriod = absl::Minutes(1);

  void Fire();

  Clock* const clock_;
  const absl::Duration timeout_;
  absl::Mutex mutex_;
  Gate* gate_ ABSL_GUARDED_BY(mutex_);  // Null once stopped.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_IDLE_TIMER_H_
