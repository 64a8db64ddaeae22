// Memory that calls reserve before they allocate it.
#ifndef PACKHOUSE_SERVICE_ADMISSION_MEMORY_BUDGET_H_
#define PACKHOUSE_SERVICE_ADMISSION_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

class MemoryBudget;

// Bytes of a budget, given back when it is destroyed. Movable; thread-compatible. The budget must
// outlive it. One that was made by default, or moved from, holds nothing and belongs to none.
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

  // Holds `bytes` more for `what`. RESOURCE_EXHAUSTED as MemoryBudget::Hold, and nothing changes.
  // Requires a budget, unless `bytes` is 0.
  absl::Status Grow(absl::string_view what, uint64_t bytes);
  // Gives back what is held above `bytes`.
  void ShrinkTo(uint64_t bytes);
  // Gives back all of it.
  void Reset() { ShrinkTo(0); }

 private:
  friend class MemoryBudget;
  MemoryHold(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}

  MemoryBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

// Counts bytes that are held, up to a bound. Where there is no room, those who keep something that
// nobody uses now are asked to let it go. Thread-safe; O(1), without locks while there is room.
class MemoryBudget {
 public:
  // Lets go of at least `bytes` if it can. May be called by any thread that holds bytes of the
  // budget, so that it must not wait for a lock under which it, or another, reserves.
  using Reclaim = std::function<void(uint64_t bytes)>;

  explicit MemoryBudget(uint64_t bound) : bound_(bound) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Sets whom to ask when there is no room; an empty one ends it, and waits until it is not being
  // asked any more.
  void SetReclaim(Reclaim reclaim);

  // RESOURCE_EXHAUSTED, naming `what`, the bytes, those that are held and the bound, if there is no
  // room; then nothing is held.
  absl::StatusOr<MemoryHold> Hold(absl::string_view what, uint64_t bytes);

  uint64_t held() const { return held_.load(std::memory_order_relaxed); }
  uint64_t bound() const { return bound_; }

 private:
  friend class MemoryHold;

  absl::Status Take(absl::string_view what, uint64_t bytes);
  bool TryTake(uint64_t bytes);
  void Give(uint64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

  const uint64_t bound_;
  std::atomic<uint64_t> held_ = 0;

  absl::Mutex reclaim_mutex_;
  Reclaim reclaim_ ABSL_GUARDED_BY(reclaim_mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_MEMORY_BUDGET_H_
