// A plan that is to be made.
#ifndef PACKHOUSE_TESTS_FAILING_STEPS_PLAN_WORLD_H_
#define PACKHOUSE_TESTS_FAILING_STEPS_PLAN_WORLD_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "tests/support/failing_steps.h"
#include "tests/support/random.h"

namespace packhouse {

// What fails may be null: then it does not.
class PlanWorld final : public StepsWorld {
 public:
  PlanWorld(CountedSteps* cancelled, CountedSteps* memory)
      : cancelled_(cancelled), memory_(memory) {
    Random random(5);
    for (int i = 0; i < 60; ++i) {
      const uint32_t sizes[2] = {static_cast<uint32_t>(random.Between(1, 500)),
                                 static_cast<uint32_t>(random.Between(1, 500))};
      EXPECT_TRUE(histogram_.Add(sizes, random.Between(1, 20)).ok());
    }
  }
  absl::Status Attempt() override {
    PlanMemory memory([this](uint64_t) { return memory_ == nullptr || !memory_->Fails(); });
    OptimizerOptions options;
    options.steps = 1'000'000;
    options.memory = &memory;
    if (cancelled_ != nullptr) options.is_cancelled = [this] { return cancelled_->Fails(); };
    const auto plan = OptimizePlan(histogram_, *Limits::Create({900, 900, 50}), options);
    if (plan.ok()) state_ = absl::StrCat(plan->packs, " packs, at least ", plan->bound.packs);
    return plan.status();
  }
  std::string State() override { return state_; }

 private:
  CountedSteps* const cancelled_;
  CountedSteps* const memory_;
  SizeHistogram histogram_{2};
  std::string state_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_STEPS_PLAN_WORLD_H_
