// Counts a call's responses that the connection has not taken yet.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_UNSENT_COUNT_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_UNSENT_COUNT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "service/base/unsent_budget.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {

// Tells the observer and the budget, and takes back the rest when the call has ended. Takes from
// the budget what the call holds, or the size of its largest response if that is more.
// Thread-compatible; observer and budget must outlive it.
class UnsentCount {
 public:
  // If `budget` is null there is always room.
  UnsentCount(RpcObserver* observer, Method method, UnsentBudget* budget = nullptr)
      : observer_(observer), method_(method), budget_(budget) {}
  UnsentCount(const UnsentCount&) = delete;
  UnsentCount& operator=(const UnsentCount&) = delete;

  // Whether a response may be made: always if none is held; else if there is room for one as large
  // as the largest so far.
  bool has_room() const {
    return responses_ == 0 || budget_ == nullptr || budget_->HasRoomAhead(largest_);
  }

  // To be called before Add(): makes sure that there is room for one response of this size.
  //
  // RESOURCE_EXHAUSTED if other calls have all the room; then the response must not be added.
  absl::Status Reserve(size_t bytes) {
    if (budget_ == nullptr || bytes <= largest_) return absl::OkStatus();
    if (bytes > taken_) {
      absl::Status reserved = budget_->Reserve(bytes - taken_, bytes);
      if (!reserved.ok()) return reserved;
      taken_ = bytes;
    }
    largest_ = bytes;
    return absl::OkStatus();
  }

  void Add(size_t bytes) { Change(1, static_cast<int64_t>(bytes)); }
  void Remove(size_t bytes) { Change(-1, -static_cast<int64_t>(bytes)); }
  void RemoveAll() {
    if (responses_ != 0) Change(-responses_, -bytes_);
    if (budget_ != nullptr) budget_->Give(std::exchange(taken_, 0));
    largest_ = 0;
  }

 private:
  void Change(int64_t responses, int64_t bytes) {
    responses_ += responses;
    bytes_ += bytes;
    observer_->OnUnsent(method_, responses, bytes);
    if (budget_ == nullptr) return;
    const uint64_t due = std::max<uint64_t>(largest_, static_cast<uint64_t>(bytes_));
    if (due > taken_) budget_->Take(due - taken_);
    if (due < taken_) budget_->Give(taken_ - due);
    taken_ = due;
  }

  RpcObserver* const observer_;
  const Method method_;
  UnsentBudget* const budget_;
  int64_t responses_ = 0;
  int64_t bytes_ = 0;
  // Of the budget.
  uint64_t largest_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_UNSENT_COUNT_H_
