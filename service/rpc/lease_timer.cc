#include "service/rpc/lease_timer.h"

namespace packhouse::rpc {

void LeaseTimer::Arm() {
  absl::MutexLock lock(&mutex_);
  if (!armed_ && loader_ != nullptr) ArmLocked();
}

void LeaseTimer::ArmLocked() {
  const absl::Time next = loader_->NextExpiry();
  if (next == absl::InfiniteFuture()) return;
  armed_ = true;
  clock_->CallAt(next, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Fire();
  });
}

void LeaseTimer::Fire() {
  absl::MutexLock lock(&mutex_);
  armed_ = false;
  if (loader_ == nullptr) return;
  loader_->Expire(clock_->Now());
  ArmLocked();
}

void LeaseTimer::Stop() {
  absl::MutexLock lock(&mutex_);
  loader_ = nullptr;
}

}  // namespace packhouse::rpc
