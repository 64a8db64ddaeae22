#include "service/base/memory_budget.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(MemoryBudgetTest, RefusesWhatIsBeyondTheBoundByName) {
  MemoryBudget budget(100);
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold hold, budget.Hold("a plan", 60));
  EXPECT_THAT(budget.Hold("a plan", 41),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("--memory-budget"), HasSubstr("a plan of 41 bytes"),
                             HasSubstr("beside the 60"), HasSubstr("at most 100"))));
  EXPECT_THAT(budget.Hold("a plan", std::numeric_limits<uint64_t>::max()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 100")));
  EXPECT_EQ(budget.held(), 60);
  EXPECT_THAT(budget.Hold("a plan", 40), IsOk());
  EXPECT_EQ(budget.held(), 60);
}

TEST(MemoryBudgetTest, AHoldGrowsShrinksAndMoves) {
  MemoryBudget budget(100);
  PH_ASSERT_OK_AND_ASSIGN(MemoryHold hold, budget.Hold("a plan", 10));
  EXPECT_THAT(hold.Grow("a plan", 80), IsOk());
  EXPECT_THAT(hold.Grow("a plan", 11),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("of 11 bytes")));
  EXPECT_EQ(hold.bytes(), 90);
  MemoryHold other = std::move(hold);
  EXPECT_EQ(budget.held(), 90);
  other.ShrinkTo(95);
  other.ShrinkTo(30);
  EXPECT_EQ(budget.held(), 30);
  PH_ASSERT_OK_AND_ASSIGN(other, budget.Hold("another", 50));
  EXPECT_EQ(budget.held(), 50);
  other = MemoryHold();
  EXPECT_EQ(budget.held(), 0);
}

TEST(MemoryBudgetTest, AsksForWhatIsMissingBeforeItRefuses) {
  MemoryBudget budget(100);
  PH_ASSERT_OK_AND_ASSIGN(MemoryHold kept, budget.Hold("kept", 70));
  std::vector<uint64_t> asked;
  budget.SetReclaim([&](uint64_t bytes) {
    asked.push_back(bytes);
    kept.ShrinkTo(kept.bytes() - std::min(kept.bytes(), bytes));
  });
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold first, budget.Hold("first", 30));
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold second, budget.Hold("second", 60));
  EXPECT_THAT(asked, testing::ElementsAre(60));
  EXPECT_THAT(budget.Hold("third", 20),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("beside the 90")));
  // What nobody could make room for is refused at once.
  EXPECT_THAT(budget.Hold("huge", 101),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 100")));
  EXPECT_THAT(asked, testing::ElementsAre(60, 20));
  budget.SetReclaim(nullptr);
}

// Whatever threads do, never more than the bound is held, and nothing is left.
// Whoever waits for room is told, whoever else came and went.
TEST(MemoryBudgetTest, WaitersAreToldOfRoomAsLongAsTheyLive) {
  MemoryBudget budget(100);
  PH_ASSERT_OK_AND_ASSIGN(MemoryHold hold, budget.Hold("a plan", 100));
  int told_one = 0;
  int told_other = 0;
  const MemoryBudget::Waiter one(&budget, [&] { ++told_one; });
  {
    const MemoryBudget::Waiter other(&budget, [&] { ++told_other; });
    hold.ShrinkTo(90);
    EXPECT_EQ(told_other, 1);
  }
  EXPECT_EQ(told_one, 1);
  hold.ShrinkTo(80);
  EXPECT_EQ(told_one, 2);
  EXPECT_EQ(told_other, 1);
}

TEST(MemoryBudgetTest, ThreadsNeverExceedTheBound) {
  MemoryBudget budget(1000);
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&budget, seed] {
      Random random(seed);
      std::vector<MemoryHold> holds(4);
      for (int i = 0; i < 5000; ++i) {
        auto hold = budget.Hold("a thread's", random.Below(400));
        EXPECT_LE(budget.held(), budget.bound());
        if (hold.ok()) holds[random.Below(holds.size())] = *std::move(hold);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.held(), 0);
}

}  // namespace
}  // namespace packhouse
