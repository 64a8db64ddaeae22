#include "service/engine/jobs/next_epoch.h"

#include <utility>

namespace packhouse {

bool NextEpoch::Begin(uint64_t epoch) {
  State before;
  absl::MutexLock lock(&mutex_);
  if (state_.epoch == epoch) return false;
  before = std::exchange(state_, State{.epoch = epoch});
  return true;
}

bool NextEpoch::IsWanted(uint64_t epoch) const {
  absl::MutexLock lock(&mutex_);
  return state_.epoch == epoch;
}

void NextEpoch::SetHurry(uint64_t epoch, std::function<void()> hurry) {
  {
    absl::MutexLock lock(&mutex_);
    if (state_.epoch != epoch || state_.made != nullptr) return;
    if (!state_.is_awaited) {
      state_.hurry.swap(hurry);
      return;
    }
  }
  hurry();
}

void NextEpoch::Await(uint64_t epoch) {
  std::function<void()> hurry;
  {
    absl::MutexLock lock(&mutex_);
    if (state_.epoch != epoch) return;
    state_.is_awaited = true;
    hurry.swap(state_.hurry);
  }
  if (hurry) hurry();
}

void NextEpoch::Keep(uint64_t epoch, std::shared_ptr<const void> made) {
  std::function<void()> hurry;
  absl::MutexLock lock(&mutex_);
  if (state_.epoch != epoch) return;
  hurry.swap(state_.hurry);
  state_.made.swap(made);
}

void NextEpoch::Clear() {
  State before;
  absl::MutexLock lock(&mutex_);
  before = std::exchange(state_, State());
}

bool NextEpoch::has_made() const {
  absl::MutexLock lock(&mutex_);
  return state_.made != nullptr;
}

}  // namespace packhouse
