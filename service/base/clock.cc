#include "service/base/clock.h"

#include <utility>

#include "service/base/out_of_memory.h"
#include "service/base/short_slices.h"
#include "service/base/steady_waits.h"

namespace packhouse {

SystemClock::SystemClock() : thread_([this] { Run(); }) { WaitSteadily(); }

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
  AskForShortSlices();
  for (;;) {
    decltype(due_)::node_type next;
    {
      absl::MutexLock lock(&mutex_);
      const absl::Time time = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
      if (time > Now()) {
        mutex_.AwaitWithTimeout(absl::Condition(this, &SystemClock::HasNews), time - Now());
        news_ = false;
      }
      if (stop_) return;
      if (due_.empty() || due_.begin()->first > Now()) continue;
      next = due_.extract(due_.begin());
    }
    if (RunWithinMemory(next.mapped())) continue;
    next.key() = Now() + kRetry;
    absl::MutexLock lock(&mutex_);
    due_.insert(std::move(next));
  }
}

}  // namespace packhouse
