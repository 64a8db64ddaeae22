// Allocations of the calling thread as steps that fail. failing_new.h replaces operator new of the
// whole program: include it in one file of a program of its own.
#ifndef PACKHOUSE_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_
#define PACKHOUSE_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "tests/support/failing_new.h"
#include "tests/support/failing_steps.h"

namespace packhouse {

class FailingAllocations final : public FailingThing {
 public:
  // So many allocations fail from a step on.
  explicit FailingAllocations(uint64_t count = 1) : count_(count) {}

  void Begin(uint64_t step, const StepsWorld& /*world*/) override {
    failing_.emplace(step, count_);
  }
  bool End() override {
    const bool has_failed = failing_->num_failed() != 0;
    failing_.reset();
    return has_failed;
  }
  uint64_t num_steps() const override { return failing_->num_seen(); }
  // The answer takes memory, too: the call may be done.
  bool IsUnknown(const absl::Status& /*ended*/) const override { return true; }
  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kResourceExhausted};
  }

 private:
  const uint64_t count_;
  std::optional<FailingNew> failing_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_SUPPORT_FAILING_ALLOCATIONS_H_
