// Memory that calls reserve before they allocate it.
#ifndef PACKHOUSE_SERVICE_BASE_MEMORY_BUDGET_H_
#define PACKHOUSE_SERVICE_BASE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

class MemoryBudget;

// Bytes of a budget, given back by the destructor. Movable; thread-compatible. The budget must
// outlive it. A default or moved-from hold has no bytes and no budget.
class MemoryHold {
 public:
  MemoryHold() = default;
  ~MemoryHold() { Reset(); }
  MemoryHold(MemoryHold&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryHold& operator=(MemoryHold&& other) noexcept {
    if (this != &other) {
      Reset();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  MemoryHold(const MemoryHold&) = delete;
  MemoryHold& operator=(const MemoryHold&) = delete;

  uint64_t bytes() const { return bytes_; }

  // Holds `bytes` more for `what`. With an error, RESOURCE_EXHAUSTED as MemoryBudget::Hold, nothing
  // changes. Requires a budget, unless `bytes` is 0.
  absl::Status Grow(absl::string_view what, uint64_t bytes);
  // Gives back the held bytes above `bytes`.
  void ShrinkTo(uint64_t bytes);
  // Gives back all of it.
  void Reset() { ShrinkTo(0); }

 private:
  friend class MemoryBudget;
  MemoryHold(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}

  MemoryBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

// Counts held bytes, up to a bound. If there is no room, it asks caches to let go of what nobody
// uses now. Thread-safe; O(1), without locks while there is room.
class MemoryBudget {
 public:
  // Lets go of at least `bytes` if possible. Any thread that reserves bytes may call it. So it must
  // not wait for a lock under which bytes are reserved.
  using Reclaim = std::function<void(uint64_t bytes)>;

  explicit MemoryBudget(uint64_t bound) : bound_(bound) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Sets the function to call when there is no room. An empty function removes it, and waits until
  // the old one is not being called any more.
  void SetReclaim(Reclaim reclaim);

  // RESOURCE_EXHAUSTED if there is no room, naming `what`, the bytes, the held bytes and the bound;
  // then nothing is held.
  absl::StatusOr<MemoryHold> Hold(absl::string_view what, uint64_t bytes);

  // Calls `on_room` after bytes were given back, from the thread that gave them, as long as this
  // lives. So who finds no room after it was made is told once there may be some. `on_room` is
  // quick, and takes no lock under which bytes are held or given back. Not movable; the budget must
  // outlive it.
  class Waiter {
   public:
    Waiter(MemoryBudget* budget, std::function<void()> on_room);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    friend class MemoryBudget;
    MemoryBudget* const budget_;
    const std::function<void()> on_room_;
  };

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bound() const { return bound_; }

 private:
  friend class MemoryHold;

  absl::Status Take(absl::string_view what, uint64_t bytes);
  bool TryTake(uint64_t bytes);
  // Sequentially consistent, as TryTake() and the Waiter's constructor: either a waiter sees the
  // room, or this sees the waiter.
  void Give(uint64_t bytes) {
    held_.fetch_sub(bytes);
    if (num_waiters_.load() != 0) TellWaiters();
  }
  void TellWaiters();

  const uint64_t bound_;
  std::atomic<uint64_t> held_ = 0;
  std::atomic<size_t> num_waiters_ = 0;

  absl::Mutex reclaim_mutex_;
  Reclaim reclaim_ ABSL_GUARDED_BY(reclaim_mutex_);

  absl::Mutex waiters_mutex_;
  std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(waiters_mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_MEMORY_BUDGET_H_
