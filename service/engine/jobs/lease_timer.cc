#include "service/engine/jobs/lease_timer.h"

namespace packhouse {

void LeaseTimer::Arm(absl::Time expiry) {
  if (expiry == absl::InfiniteFuture()) return;
  absl::MutexLock lock(&mutex_);
  if (!armed_ && jobs_ != nullptr) ArmLocked(expiry);
}

void LeaseTimer::ArmLocked(absl::Time expiry) {
  if (expiry == absl::InfiniteFuture()) return;
  armed_ = true;
  clock_->CallAt(expiry, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->pool_->Submit(/*client=*/"", [weak] {
      if (const auto armed = weak.lock()) armed->Fire();
    });
  });
}

void LeaseTimer::Fire() {
  absl::MutexLock lock(&mutex_);
  armed_ = false;
  if (jobs_ == nullptr) return;
  jobs_->Expire(clock_->Now());
  ArmLocked(jobs_->NextExpiry());
}

void LeaseTimer::Stop() {
  absl::MutexLock lock(&mutex_);
  jobs_ = nullptr;
}

}  // namespace packhouse
