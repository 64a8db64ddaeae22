#include "service/base/memory_budget.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::Status MemoryHold::Grow(absl::string_view what, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  PH_RETURN_IF_ERROR(budget_->Take(what, bytes));
  bytes_ += bytes;
  return absl::OkStatus();
}

void MemoryHold::ShrinkTo(uint64_t bytes) {
  if (bytes >= bytes_) return;
  budget_->Give(bytes_ - bytes);
  bytes_ = bytes;
}

void MemoryBudget::SetReclaim(Reclaim reclaim) {
  absl::MutexLock lock(&reclaim_mutex_);
  reclaim_ = std::move(reclaim);
}

absl::StatusOr<MemoryHold> MemoryBudget::Hold(absl::string_view what, uint64_t bytes) {
  PH_RETURN_IF_ERROR(Take(what, bytes));
  return MemoryHold(this, bytes);
}

absl::Status MemoryBudget::Take(absl::string_view what, uint64_t bytes) {
  if (TryTake(bytes)) return absl::OkStatus();
  if (bytes <= bound_) {
    // One at a time: a later caller may find the room that was made for an earlier one.
    absl::MutexLock lock(&reclaim_mutex_);
    if (TryTake(bytes)) return absl::OkStatus();
    if (reclaim_) {
      const uint64_t held = this->held();
      reclaim_(held > bound_ - bytes ? held - (bound_ - bytes) : 0);
      if (TryTake(bytes)) return absl::OkStatus();
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat("--memory-budget: ", what, " of ", bytes,
                                                   " bytes beside the ", held(),
                                                   " that are held, at most ", bound_));
}

MemoryBudget::Waiter::Waiter(MemoryBudget* budget, std::function<void()> on_room)
    : budget_(budget), on_room_(std::move(on_room)) {
  absl::MutexLock lock(&budget_->waiters_mutex_);
  budget_->waiters_.push_back(this);
  budget_->num_waiters_.fetch_add(1);
}

MemoryBudget::Waiter::~Waiter() {
  absl::MutexLock lock(&budget_->waiters_mutex_);
  std::erase(budget_->waiters_, this);
  budget_->num_waiters_.fetch_sub(1);
}

void MemoryBudget::TellWaiters() {
  absl::MutexLock lock(&waiters_mutex_);
  for (const Waiter* const waiter : waiters_) waiter->on_room_();
}

bool MemoryBudget::TryTake(uint64_t bytes) {
  uint64_t held = held_.load();
  do {
    if (bytes > bound_ || held > bound_ - bytes) return false;
  } while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  return true;
}

}  // namespace packhouse
