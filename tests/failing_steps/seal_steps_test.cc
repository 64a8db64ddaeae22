// A seal, whichever of its steps fails: the graph is sealed with all its rows, or open as before.
#include <cerrno>
#include <memory>

#include "gtest/gtest.h"
#include "tests/failing_steps/seal_world.h"
#include "tests/support/failing_disk.h"
#include "tests/support/failing_steps.h"

namespace packhouse {
namespace {

TEST(SealStepsTest, Cancelled) {
  for (const bool lasts : {false, true}) {
    CancelledSteps cancelled(lasts);
    const StepsTold told = ExpectDoneOrNot(
        [&] { return std::make_unique<SealWorld>(&cancelled, nullptr, 600); }, cancelled);
    EXPECT_GT(told.num_steps, 10U);
    EXPECT_EQ(told.num_done, 0U);
  }
}

TEST(SealStepsTest, MemoryRefused) {
  RefusedMemory memory;
  const StepsTold told =
      ExpectDoneOrNot([&] { return std::make_unique<SealWorld>(nullptr, &memory); }, memory);
  EXPECT_EQ(told.num_done, 0U);
}

// With power lost, and as one of many calls: tests/failing_disk/source_graphs_test.cc.
TEST(SealStepsTest, DiskFails) {
  for (const int error : {EIO, ENOSPC, EMFILE, EINTR}) {
    FailingDisk disk({error, false, false});
    StepsOptions options;
    options.most_steps = 40;
    ExpectDoneOrNot([&] { return std::make_unique<SealWorld>(nullptr); }, disk, options);
  }
}

}  // namespace
}  // namespace packhouse
