// A bound on how long planning may take, in steps, not in time.
#ifndef PACKHOUSE_SERVICE_PLANNING_WORK_BUDGET_H_
#define PACKHOUSE_SERVICE_PLANNING_WORK_BUDGET_H_

#include <cstdint>

namespace packhouse {

// Counts down the steps (open patterns looked at) that an algorithm may still take: the same input
// gives the same plan, or the same refusal, on a fast and on a slow machine. Thread-compatible.
class WorkBudget {
 public:
  // About a second on one core of 2020.
  static constexpr uint64_t kDefaultSteps = 100'000'000;

  explicit WorkBudget(uint64_t steps = kDefaultSteps) : remaining_(steps) {}

  // Uses up `steps`; false if there were not as many left.
  bool Spend(uint64_t steps = 1) {
    if (steps > remaining_) {
      remaining_ = 0;
      return false;
    }
    remaining_ -= steps;
    return true;
  }
  uint64_t remaining() const { return remaining_; }

 private:
  uint64_t remaining_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_WORK_BUDGET_H_
