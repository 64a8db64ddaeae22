#include "service/server/calls/idle_timer.h"

#include <algorithm>

namespace packhouse {

void IdleTimer::Arm() {
  if (timeout_ == absl::InfiniteDuration()) return;
  clock_->CallAt(clock_->Now() + std::min(timeout_ / 4, kMaxPeriod), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Fire();
  });
}

void IdleTimer::Fire() {
  {
    absl::MutexLock lock(&mutex_);
    if (gate_ == nullptr) return;
    gate_->EndIdleStreams(clock_->Now() - timeout_);
  }
  Arm();
}

void IdleTimer::Stop() {
  absl::MutexLock lock(&mutex_);
  gate_ = nullptr;
}

}  // namespace packhouse
