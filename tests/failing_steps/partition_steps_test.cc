// A partition, whichever of its steps fails: whole, or none; and the same call goes on from what
// was done.
#include <memory>

#include "gtest/gtest.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/failing_steps/partition_world.h"
#include "tests/support/failing_steps.h"
#include "tests/support/source_graph_world.h"

namespace packhouse {
namespace {

StepsOptions OnceDone() {
  StepsOptions options;
  options.again = absl::StatusCode::kAlreadyExists;
  return options;
}

TEST(PartitionStepsTest, Cancelled) {
  const auto graph = SmallSourceGraph(40);
  for (const bool lasts : {false, true}) {
    CancelledSteps cancelled(lasts);
    RunWatch watch;
    watch.cancelled = [&cancelled] { return cancelled.Fails(); };
    const StepsTold told = ExpectDoneOrNot(
        [&] { return std::make_unique<PartitionWorld>(*graph, watch); }, cancelled, OnceDone());
    EXPECT_EQ(told.num_done, 0U);
  }
}

// What a partition has on the disk is told after each file; whoever counts it may refuse.
class RefusedDisk final : public CountedSteps {
 public:
  std::vector<absl::StatusCode> refusals() const override {
    return {absl::StatusCode::kResourceExhausted};
  }
};

TEST(PartitionStepsTest, DiskQuotaRefuses) {
  const auto graph = SmallSourceGraph(40);
  RefusedDisk quota;
  RunWatch watch;
  watch.wrote = [&quota](uint64_t) {
    return quota.Fails() ? absl::ResourceExhaustedError("quota") : absl::OkStatus();
  };
  const StepsTold told = ExpectDoneOrNot(
      [&] { return std::make_unique<PartitionWorld>(*graph, watch); }, quota, OnceDone());
  EXPECT_EQ(told.num_done, 0U);
}

}  // namespace
}  // namespace packhouse
