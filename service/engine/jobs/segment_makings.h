// Which segments or windows are being made for evaluations, and for which of them.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_SEGMENT_MAKINGS_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_SEGMENT_MAKINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/engine/epochs/loadable_epoch.h"

namespace packhouse {

// The ranks of an evaluation need the same segments at about the same time. A segment is made once
// for all of them, as long as any of them is there; a window is planned so. Thread-safe.
class SegmentMakings {
 public:
  // An evaluation that wants a segment.
  struct Waiter {
    // It does not need it yet.
    bool is_ahead = false;
    // Whether it is gone. Called under a lock, so it must be quick.
    std::function<bool()> is_over;
    // Called once. The error is why the segment could not be made; nobody is told of an error who
    // does not need the segment yet.
    std::function<void(const absl::Status&)> made;
  };

  // The making of one segment. If it is destroyed before it has ended, those who wait are told that
  // there was no memory.
  class Order {
   public:
    // As SegmentMakings::Add() makes it.
    Order(SegmentMakings* makings, std::shared_ptr<const LoadableEpoch> epoch, uint32_t segment,
          bool is_ahead)
        : makings_(makings), epoch_(std::move(epoch)), segment_(segment), is_ahead_(is_ahead) {}
    ~Order();
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;

    const LoadableEpoch& epoch() const { return *epoch_; }
    // To be called before it is made. False if nobody waits any more.
    bool Begin();
    // Whether nobody waits any more. From then on nobody can; who comes has it made anew.
    bool IsOver();
    void End(const absl::Status& status);

   private:
    friend class SegmentMakings;

    SegmentMakings* const makings_;
    const std::shared_ptr<const LoadableEpoch> epoch_;
    const uint32_t segment_;
    const bool is_ahead_;
    // Guarded by the mutex of `makings_`.
    bool has_begun_ = false;
    std::vector<Waiter> waiters_;
  };

  // Returns what the caller must have made; null if it is being made already. Somebody who needs it
  // does not wait for a making ahead that has not begun, but takes its waiters over: there may be
  // much before it. The makings must outlive the order.
  std::shared_ptr<Order> Add(std::shared_ptr<const LoadableEpoch> epoch, uint32_t segment,
                             Waiter waiter);

 private:
  // An order has its epoch, so no two epochs have the same address.
  using Key = std::pair<const LoadableEpoch*, uint32_t>;

  void Remove(const Order& order) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  std::map<Key, Order*> under_way_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_SEGMENT_MAKINGS_H_
