#include "service/engine/jobs/retention_timer.h"

#include <algorithm>

namespace packhouse {

absl::Duration RetentionTimer::PeriodOf(absl::Duration retention) {
  return std::clamp(retention / 8, absl::Seconds(1), absl::Minutes(10));
}

void RetentionTimer::Start() {
  absl::MutexLock lock(&mutex_);
  if (jobs_ != nullptr) SetTimer();
}

void RetentionTimer::SetTimer() {
  clock_->CallAt(clock_->Now() + PeriodOf(retention_), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->pool_->Submit(/*client=*/"", [weak] {
      if (const auto due = weak.lock()) due->Fire();
    });
  });
}

void RetentionTimer::Fire() {
  absl::MutexLock lock(&mutex_);
  if (jobs_ == nullptr) return;
  // If the log refuses now, the next period tries again.
  (void)jobs_->ForgetUnused(clock_->Now());
  SetTimer();
}

void RetentionTimer::Stop() {
  absl::MutexLock lock(&mutex_);
  jobs_ = nullptr;
}

}  // namespace packhouse
