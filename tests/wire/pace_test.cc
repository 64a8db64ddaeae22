#include "service/server/calls/pace.h"

#include "gtest/gtest.h"
#include "tests/support/simulated_clock.h"

namespace packhouse {
namespace {

TEST(PaceTest, OneSlowRequestCountsAtOnceAFastOneDoesNot) {
  SimulatedClock clock;
  Pace pace(&clock);
  const auto answer = [&](absl::Duration time) {
    pace.Begin();
    clock.Advance(time);
    pace.End();
  };
  for (int i = 0; i < Pace::kEnough; ++i) {
    EXPECT_FALSE(pace.is_quick());
    answer(Pace::kQuick);
    // Nothing was begun with.
    pace.End();
  }
  EXPECT_TRUE(pace.is_quick());
  answer(Pace::kQuick + absl::Microseconds(1));
  EXPECT_FALSE(pace.is_quick());
  for (int i = 0; i < Pace::kEnough; ++i) answer(absl::ZeroDuration());
  EXPECT_TRUE(pace.is_quick());
}

}  // namespace
}  // namespace packhouse
