// A bound on how long planning may take, in steps, not in time.
#ifndef PACKHOUSE_SERVICE_PLANNING_WORK_BUDGET_H_
#define PACKHOUSE_SERVICE_PLANNING_WORK_BUDGET_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace packhouse {

// Counts down the steps (open patterns looked at or moved) that an algorithm may still take: the
// same input gives the same plan, or the same refusal, on a fast and on a slow machine. Besides,
// asks now and then whether the caller gave up. Thread-compatible.
class WorkBudget {
 public:
  // About a second on one core of 2020.
  static constexpr uint64_t kDefaultSteps = 100'000'000;

  // `given_up` may be empty.
  explicit WorkBudget(uint64_t steps = kDefaultSteps, std::function<bool()> given_up = nullptr)
      : remaining_(steps), given_up_(std::move(given_up)) {}

  // Uses up `steps`; false if there were not as many left, or if the caller gave up.
  bool Spend(uint64_t steps = 1) {
    if (steps > remaining_) {
      remaining_ = 0;
      return false;
    }
    remaining_ -= steps;
    until_asked_ -= std::min(steps, until_asked_);
    if (until_asked_ == 0) {
      until_asked_ = kStepsBetweenAsking;
      if (given_up_ && given_up_()) {
        cancelled_ = true;
        remaining_ = 0;
      }
    }
    return !cancelled_;
  }

  uint64_t remaining() const { return remaining_; }
  bool cancelled() const { return cancelled_; }

  // Why Spend() said no: RESOURCE_EXHAUSTED or CANCELLED.
  absl::Status Refusal() const {
    if (cancelled_) return absl::CancelledError("plan: given up by the caller");
    return absl::ResourceExhaustedError("plan: the work budget is used up");
  }

 private:
  static constexpr uint64_t kStepsBetweenAsking = uint64_t{1} << 16;

  uint64_t remaining_;
  uint64_t until_asked_ = kStepsBetweenAsking;
  bool cancelled_ = false;
  std::function<bool()> given_up_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_WORK_BUDGET_H_
