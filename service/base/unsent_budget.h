// Memory for responses that are made and not sent yet, shared by all calls.
#ifndef PACKHOUSE_SERVICE_BASE_UNSENT_BUDGET_H_
#define PACKHOUSE_SERVICE_BASE_UNSENT_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

// Every call has memory for one response of its own, reserved when it first makes one of that size.
// So a client that reads is served, however many others do not read. Responses made ahead of the
// reader use the rest, up to half of the bound, so that there is room for later calls.
//
// Thread-safe, without locks.
class UnsentBudget {
 public:
  explicit UnsentBudget(uint64_t bound) : bound_(bound) {}
  UnsentBudget(const UnsentBudget&) = delete;
  UnsentBudget& operator=(const UnsentBudget&) = delete;

  // Takes `bytes` more for a call's own response, which then has `size`.
  //
  // RESOURCE_EXHAUSTED, and nothing is taken, if that would exceed the bound.
  absl::Status Reserve(uint64_t bytes, uint64_t size) {
    uint64_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (bytes > bound_ || taken > bound_ - bytes) {
        return absl::ResourceExhaustedError(
            absl::StrCat("--memory-budget: a response of ", size, " bytes beside the ", taken,
                         " that all calls have for theirs, at most ", bound_));
      }
    } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
    return absl::OkStatus();
  }

  // Whether one more response of `bytes` may be made ahead. All calls that ask at the same time may
  // get true; they are at most as many as the threads that make responses.
  bool HasRoomAhead(uint64_t bytes) const { return taken() + bytes <= bound_ / 2; }

  // Take() is for responses that are already made, and may exceed the bound.
  void Take(uint64_t bytes) { taken_.fetch_add(bytes, std::memory_order_relaxed); }
  void Give(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }

  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }
  uint64_t bound() const { return bound_; }

 private:
  const uint64_t bound_;
  std::atomic<uint64_t> taken_ = 0;
};

// The room of a unary call's answer, from before it is written until the call has gone.
// Thread-compatible.
class AnswerHold {
 public:
  // Null: nothing is counted. Must outlive this.
  explicit AnswerHold(UnsentBudget* budget) : budget_(budget) {}
  ~AnswerHold() { Reset(); }
  AnswerHold(const AnswerHold&) = delete;
  AnswerHold& operator=(const AnswerHold&) = delete;

  // RESOURCE_EXHAUSTED if there is no room for an answer of `bytes`. May be called once.
  absl::Status Reserve(uint64_t bytes) {
    if (budget_ == nullptr) return absl::OkStatus();
    absl::Status reserved = budget_->Reserve(bytes, bytes);
    if (reserved.ok()) bytes_ = bytes;
    return reserved;
  }
  void Reset() {
    if (budget_ != nullptr) budget_->Give(std::exchange(bytes_, 0));
  }

 private:
  UnsentBudget* const budget_;
  uint64_t bytes_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_UNSENT_BUDGET_H_
