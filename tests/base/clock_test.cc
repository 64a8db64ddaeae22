#include "service/base/clock.h"

#include <latch>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

TEST(SystemClockTest, RunsWhatIsDueEarliestFirst) {
  std::vector<int> order;
  std::latch done(1);
  SystemClock clock;
  const absl::Time past = clock.Now() - absl::Hours(1);
  std::latch all_set(1);
  // Holds the clock's thread until the others are in, so that they are due together.
  clock.CallAt(past - absl::Hours(1), [&] { all_set.wait(); });
  clock.CallAt(past + absl::Seconds(2), [&] {
    order.push_back(2);
    done.count_down();
  });
  clock.CallAt(past + absl::Seconds(1), [&] { order.push_back(1); });
  all_set.count_down();
  done.wait();
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
}  // namespace packhouse
