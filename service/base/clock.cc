#include "service/base/clock.h"

#include <vector>

namespace packhouse {

SystemClock::SystemClock() : thread_([this] { Run(); }) {}

SystemClock::~SystemClock() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    news_ = true;
  }
  thread_.join();
}

absl::Time SystemClock::Now() const {
  return start_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_start_);
}

void SystemClock::CallAt(absl::Time time, std::function<void()> callback) {
  absl::MutexLock lock(&mutex_);
  const auto placed = due_.emplace(time, std::move(callback));
  news_ |= placed == due_.begin();
}

void SystemClock::Run() {
  std::vector<std::function<void()>> callbacks;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      const absl::Time next = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
      mutex_.AwaitWithTimeout(absl::Condition(this, &SystemClock::HasNews), next - Now());
      news_ = false;
      if (stop_) return;
      const auto end = due_.upper_bound(Now());
      for (auto it = due_.begin(); it != end; it = due_.erase(it)) {
        callbacks.push_back(std::move(it->second));
      }
    }
    for (auto& callback : callbacks) callback();
    callbacks.clear();
  }
}

}  // namespace packhouse
