// A thread that asks for short slices stays what it is otherwise.
#include "service/base/short_slices.h"

#include <sched.h>
#include <sys/resource.h>

#include <thread>

#include "gtest/gtest.h"

namespace packhouse {
namespace {

TEST(ShortSlicesTest, PolicyAndNicenessStay) {
  std::thread thread([] {
    // Anybody may become nicer.
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, 12), 0);
    for (int times = 0; times < 2; ++times) {
      AskForShortSlices();
      EXPECT_EQ(getpriority(PRIO_PROCESS, 0), 12);
      EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    }
  });
  thread.join();
}

}  // namespace
}  // namespace packhouse
