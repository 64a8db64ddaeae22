// Time, as the service sees it; tests replace it (tests/support/simulated_clock.h).
#ifndef PACKHOUSE_SERVICE_BASE_CLOCK_H_
#define PACKHOUSE_SERVICE_BASE_CLOCK_H_

#include <chrono>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace packhouse {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() const = 0;

  // Runs `callback` once, at `time` or soon after, on a thread of the clock. It must return
  // quickly, and must own everything that it needs. If it runs out of memory (std::bad_alloc), it
  // is called again a little later, so it must be able to go on, or to begin again.
  virtual void CallAt(absl::Time time, std::function<void()> callback) = 0;
};

// The machine's clock, with one thread for the callbacks. Now() is the wall time at the start plus
// the time that has passed since: it never steps, and neither do waits in a program that has one
// (steady_waits.h). Callbacks that are not yet due when the
// clock is destroyed are dropped.
class SystemClock final : public Clock {
 public:
  SystemClock();
  ~SystemClock() override;

  absl::Time Now() const override;
  void CallAt(absl::Time time, std::function<void()> callback) override;

 private:
  // Time to the next try after a callback ran out of memory.
  static constexpr absl::Duration kRetry = absl::Milliseconds(100);

  void Run();
  // Whether the earliest callback changed or the clock is to stop.
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return news_; }

  const absl::Time start_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_start_ = std::chrono::steady_clock::now();

  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  std::multimap<absl::Time, std::function<void()>> due_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_CLOCK_H_
