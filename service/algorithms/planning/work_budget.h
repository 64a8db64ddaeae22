// A bound on the work of planning, in steps instead of time.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_WORK_BUDGET_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_WORK_BUDGET_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "service/algorithms/planning/plan_memory.h"

namespace packhouse {

// Counts down the steps (open patterns looked at or moved) that an algorithm may still take. The
// same input therefore gives the same plan, or the same refusal, on a fast and on a slow machine.
// It also asks now and then whether the caller gave up, and whether there is memory.
// Thread-compatible.
class WorkBudget {
 public:
  // About a second on one core of 2020.
  static constexpr uint64_t kDefaultSteps = 100'000'000;

  // `is_cancelled` may be empty; `memory` may be null, else it must outlive the budget.
  explicit WorkBudget(uint64_t steps = kDefaultSteps, std::function<bool()> is_cancelled = nullptr,
                      PlanMemory* memory = nullptr)
      : remaining_(steps), is_cancelled_(std::move(is_cancelled)), memory_(memory) {}

  // A budget without a bound, for work that is done unless the caller gives up.
  WorkBudget WithoutBound() const { return WorkBudget(UINT64_MAX, is_cancelled_, memory_); }

  // A budget of `steps` for a part of the work, which the caller then spends of this one.
  WorkBudget Part(uint64_t steps) const { return WorkBudget(steps, is_cancelled_, memory_); }

  // Uses up `steps`; false if fewer were left, or if the caller gave up.
  bool Spend(uint64_t steps = 1) {
    if (steps > remaining_) {
      remaining_ = 0;
      return false;
    }
    remaining_ -= steps;
    return Pass(steps);
  }
  // The same for work that is not counted: false if the caller gave up.
  bool Pass(uint64_t steps) {
    until_asked_ -= std::min(steps, until_asked_);
    if (until_asked_ == 0) {
      until_asked_ = kStepsBetweenAsking;
      if (is_cancelled_ && is_cancelled_()) GiveUp();
    }
    return !cancelled_;
  }

  // To be called before a list of patterns grows to this many bytes, or anything else by this many.
  // False if there is no room; the budget then counts as given up.
  bool HoldList(uint64_t bytes) { return memory_ == nullptr || Held(memory_->HoldList(bytes)); }
  bool HoldMore(uint64_t bytes) { return memory_ == nullptr || Held(memory_->HoldMore(bytes)); }

  // From now on the budget behaves as if the caller had given up.
  void GiveUp() {
    cancelled_ = true;
    remaining_ = 0;
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

  bool Held(bool held) {
    if (!held) GiveUp();
    return held;
  }

  uint64_t remaining_;
  uint64_t until_asked_ = kStepsBetweenAsking;
  bool cancelled_ = false;
  std::function<bool()> is_cancelled_;
  PlanMemory* memory_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_WORK_BUDGET_H_
