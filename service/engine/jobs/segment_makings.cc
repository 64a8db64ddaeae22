#include "service/engine/jobs/segment_makings.h"

#include <algorithm>

namespace packhouse {

SegmentMakings::Order::~Order() {
  End(absl::UnavailableError("there was no memory to make a segment"));
}

bool SegmentMakings::Order::Begin() {
  {
    absl::MutexLock lock(&makings_->mutex_);
    has_begun_ = true;
  }
  return !IsOver();
}

bool SegmentMakings::Order::IsOver() {
  absl::MutexLock lock(&makings_->mutex_);
  const bool is_over = std::all_of(waiters_.begin(), waiters_.end(),
                                   [](const Waiter& waiter) { return waiter.is_over(); });
  if (is_over) makings_->Remove(*this);
  return is_over;
}

void SegmentMakings::Order::End(const absl::Status& status) {
  std::vector<Waiter> waiters;
  {
    absl::MutexLock lock(&makings_->mutex_);
    makings_->Remove(*this);
    waiters.swap(waiters_);
  }
  for (const Waiter& waiter : waiters) {
    waiter.made(waiter.is_ahead ? absl::OkStatus() : status);
  }
}

std::shared_ptr<SegmentMakings::Order> SegmentMakings::Add(
    std::shared_ptr<const LoadableEpoch> epoch, uint32_t segment, Waiter waiter) {
  const Key key(epoch.get(), segment);
  // Before the lock, which an order that is dropped takes.
  auto order = std::make_shared<Order>(this, std::move(epoch), segment, waiter.is_ahead);
  absl::MutexLock lock(&mutex_);
  const auto found = under_way_.find(key);
  if (found == under_way_.end()) {
    order->waiters_.push_back(std::move(waiter));
    under_way_.emplace(key, order.get());
    return order;
  }
  Order& other = *found->second;
  if (waiter.is_ahead || !other.is_ahead_ || other.has_begun_) {
    other.waiters_.push_back(std::move(waiter));
    return nullptr;
  }
  order->waiters_.reserve(other.waiters_.size() + 1);
  order->waiters_.swap(other.waiters_);
  order->waiters_.push_back(std::move(waiter));
  found->second = order.get();
  return order;
}

void SegmentMakings::Remove(const Order& order) {
  const auto found = under_way_.find({order.epoch_.get(), order.segment_});
  if (found != under_way_.end() && found->second == &order) under_way_.erase(found);
}

}  // namespace packhouse
