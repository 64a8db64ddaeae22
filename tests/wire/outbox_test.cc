#include "service/server/calls/outbox.h"

#include <cstdint>
#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {
namespace {

using More = Outbox::More;

// A response of `size` bytes in all.
MessagePieces ResponseOf(size_t size) {
  MessagePieces response;
  response.head.assign(size, 'x');
  return response;
}

absl::Status Add(Outbox& outbox, size_t size) { return outbox.Add(ResponseOf(size)); }

absl::Status Replace(Outbox& outbox, size_t size) { return outbox.Replace(ResponseOf(size)); }

class OutboxTest : public ::testing::Test {
 protected:
  CallContext Context() {
    CallContext context;
    context.observer = &observer_;
    context.unsent_budget = &budget_;
    return context;
  }

  UnsentObserver observer_;
  UnsentBudget budget_{64 << 20};
};

// Whatever is added and sent, in whatever order: each goes once, in order, one at a time.
TEST_F(OutboxTest, ResponsesGoOnceInOrder) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Outbox outbox(Context(), Method::kLoad);
    std::deque<size_t> waiting;
    size_t sending = 0;
    for (int i = 0; i < 500; ++i) {
      if (random.Below(2) == 0 && outbox.has_room()) {
        const size_t bytes = 1 + random.Below(seed % 2 == 0 ? 40'000 : 400'000);
        ASSERT_THAT(Add(outbox, bytes), IsOk());
        waiting.push_back(bytes);
      }
      const auto more = static_cast<More>(random.Below(2));
      if (const auto begun = outbox.Begin(more)) {
        ASSERT_EQ(sending, 0);
        sending = waiting.front();
        waiting.pop_front();
        ASSERT_EQ(begun->size(), sending);
      } else if (more == More::kNone) {
        ASSERT_TRUE(sending != 0 || waiting.empty());
      }
      ASSERT_EQ(outbox.is_sending(), sending != 0);
      ASSERT_EQ(outbox.is_idle(), sending == 0 && waiting.empty());
      ASSERT_EQ(observer_.responses(),
                static_cast<int64_t>(waiting.size()) + (sending != 0 ? 1 : 0));
      if (sending != 0 && random.Below(3) == 0) {
        outbox.End();
        sending = 0;
      }
    }
    outbox.Abandon();
    EXPECT_EQ(observer_.responses(), 0);
    EXPECT_EQ(observer_.bytes(), 0);
    EXPECT_EQ(budget_.taken(), 0);
  }
}

TEST_F(OutboxTest, SmallResponsesWaitForEachOtherWhileMoreAreComing) {
  Outbox outbox(Context(), Method::kLoad);
  constexpr size_t kBytes = 1000;
  for (size_t held = kBytes; held < Outbox::kBeginBytes; held += kBytes) {
    ASSERT_THAT(Add(outbox, kBytes), IsOk());
    EXPECT_FALSE(outbox.Begin(More::kComing));
  }
  ASSERT_THAT(Add(outbox, kBytes), IsOk());
  EXPECT_TRUE(outbox.Begin(More::kComing));
}

TEST_F(OutboxTest, TwoLargeResponsesWaitForEachOtherWhileMoreAreComing) {
  Outbox outbox(Context(), Method::kLoad);
  ASSERT_THAT(Add(outbox, Outbox::kBeginBytes), IsOk());
  EXPECT_FALSE(outbox.Begin(More::kComing));
  ASSERT_THAT(Add(outbox, Outbox::kBeginBytes), IsOk());
  ASSERT_TRUE(outbox.Begin(More::kComing));
  outbox.End();
  EXPECT_FALSE(outbox.Begin(More::kComing));
  EXPECT_TRUE(outbox.Begin(More::kNone));
}

TEST_F(OutboxTest, IsFullAtTwoLargeResponsesOrManySmallOnes) {
  Outbox large(Context(), Method::kLoad);
  ASSERT_THAT(Add(large, 4 * Outbox::kFullBytes), IsOk());
  EXPECT_TRUE(large.has_room());
  ASSERT_THAT(Add(large, 4 * Outbox::kFullBytes), IsOk());
  EXPECT_FALSE(large.has_room());

  Outbox small(Context(), Method::kLoad);
  size_t held = 0;
  for (; small.has_room(); held += 100) ASSERT_THAT(Add(small, 100), IsOk());
  EXPECT_GE(held, Outbox::kFullBytes);
  EXPECT_LT(held, Outbox::kFullBytes + 100);
}

TEST_F(OutboxTest, TheLatestReplacesWhatWaitsButNotWhatIsOnItsWay) {
  Outbox outbox(Context(), Method::kTune);
  ASSERT_THAT(Replace(outbox, 10), IsOk());
  ASSERT_TRUE(outbox.Begin(More::kNone));
  ASSERT_THAT(Replace(outbox, 20), IsOk());
  ASSERT_THAT(Replace(outbox, 30), IsOk());
  EXPECT_EQ(observer_.responses(), 2);
  EXPECT_EQ(observer_.bytes(), 40);
  outbox.End();
  EXPECT_EQ(outbox.Begin(More::kNone)->size(), 30);
  outbox.End();
  EXPECT_TRUE(outbox.is_idle());
}

TEST_F(OutboxTest, WithoutABudgetThereIsOneResponseAtATime) {
  UnsentBudget budget(1000);
  CallContext context = Context();
  context.unsent_budget = &budget;
  Outbox outbox(context, Method::kLoad);
  ASSERT_THAT(Add(outbox, 900), IsOk());
  EXPECT_FALSE(outbox.has_room());
  ASSERT_TRUE(outbox.Begin(More::kNone));
  EXPECT_FALSE(outbox.has_room());
  outbox.End();
  EXPECT_TRUE(outbox.has_room());
  EXPECT_THAT(Add(outbox, 1001), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
}

}  // namespace
}  // namespace packhouse
