// What code asks while it makes a plan or an epoch: whether there is memory, and whether somebody
// still waits.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_MAKING_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_MAKING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/cancellation.h"

namespace packhouse {

// For one plan or epoch at a time; thread-compatible. By default memory has no bound, and somebody
// waits.
class Making {
 public:
  Making() = default;
  // `memory` must outlive the epoch. `cancellation` may be empty. It may take long, so it is never
  // called under a lock. `hurry` is for what is made in the background, and called when somebody
  // else waits for it.
  Making(MemoryBudget* memory, Cancellation cancellation, std::function<void()> hurry = nullptr)
      : memory_(memory), cancellation_(std::move(cancellation)), hurry_(std::move(hurry)) {}

  // To be called before this many bytes are allocated for `what`. RESOURCE_EXHAUSTED as
  // MemoryBudget::Hold.
  absl::StatusOr<MemoryHold> Hold(absl::string_view what, uint64_t bytes) const {
    if (memory_ == nullptr) return MemoryHold();
    return memory_->Hold(what, bytes);
  }
  // The same for more bytes of an earlier Hold().
  absl::Status Grow(absl::string_view what, uint64_t bytes, MemoryHold& hold) const {
    if (memory_ == nullptr) return absl::OkStatus();
    return hold.Grow(what, bytes);
  }

  // CANCELLED if nobody waits any more.
  absl::Status StillWanted() const {
    if (!is_cancelled() || !is_cancelled()()) return absl::OkStatus();
    return absl::CancelledError("epoch: given up by the caller");
  }
  // The same for step `i` of a loop: asks every thousand steps or so. A step may take a
  // microsecond.
  absl::Status StillWantedAt(size_t i) const {
    return i % kStepsBetweenAsking == 0 ? StillWanted() : absl::OkStatus();
  }
  const std::function<bool()>& is_cancelled() const { return cancellation_.while_making(); }
  // For whoever waits for another's making of the same.
  bool CancelledWhileWaiting() const { return cancellation_.WhileWaiting(); }
  // May be empty.
  const std::function<void()>& hurry() const { return hurry_; }
  // Null: no bound.
  MemoryBudget* memory() const { return memory_; }

 private:
  static constexpr size_t kStepsBetweenAsking = size_t{1} << 12;

  MemoryBudget* memory_ = nullptr;
  Cancellation cancellation_;
  std::function<void()> hurry_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_MAKING_H_
