// A clock that moves when a test says so.
#ifndef PACKHOUSE_TESTS_SUPPORT_SIMULATED_CLOCK_H_
#define PACKHOUSE_TESTS_SUPPORT_SIMULATED_CLOCK_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"

namespace packhouse {

// Thread-safe.
class SimulatedClock final : public Clock {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    return now_;
  }

  void CallAt(absl::Time time, std::function<void()> callback) override {
    absl::MutexLock lock(&mutex_);
    due_.emplace(time, std::move(callback));
  }

  // Moves on and runs what has become due, on the calling thread.
  void Advance(absl::Duration duration) {
    std::vector<std::function<void()>> callbacks;
    {
      absl::MutexLock lock(&mutex_);
      now_ += duration;
      const auto end = due_.upper_bound(now_);
      for (auto it = due_.begin(); it != end; it = due_.erase(it)) {
        callbacks.push_back(std::move(it->second));
      }
    }
    for (const auto& callback : callbacks) callback();
  }

  // Waits until a timer is set, which another thread does.
  void AwaitTimer() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &SimulatedClock::HasTimer));
  }

 private:
  bool HasTimer() const { return !due_.empty(); }

  mutable absl::Mutex mutex_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(24 * 365 * 50);
  std::multimap<absl::Time, std::function<void()>> due_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_SIMULATED_CLOCK_H_
