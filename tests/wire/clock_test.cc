#include "service/rpc/clock.h"

#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::rpc {
namespace {

using ::testing::ElementsAre;

TEST(SystemClockTest, RunsWhatIsDueEarliestFirst) {
  std::vector<int> order;
  absl::Notification done;
  SystemClock clock;
  const absl::Time past = clock.Now() - absl::Hours(1);
  absl::Notification all_set;
  // Holds the clock's thread until the others are in, so that they are due together.
  clock.CallAt(past - absl::Hours(1), [&] { all_set.WaitForNotification(); });
  clock.CallAt(past + absl::Seconds(2), [&] {
    order.push_back(2);
    done.Notify();
  });
  clock.CallAt(past + absl::Seconds(1), [&] { order.push_back(1); });
  all_set.Notify();
  done.WaitForNotification();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(SystemClockTest, DropsWhatIsNotYetDue) {
  bool called = false;
  {
    SystemClock clock;
    clock.CallAt(clock.Now() + absl::Hours(1), [&] { called = true; });
    clock.CallAt(absl::InfiniteFuture(), [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace packhouse::rpc
