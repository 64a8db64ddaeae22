#include "service/rpc/outbox.h"

#include <cstdint>
#include <deque>
#include <string>

#include "gmock/gmock.h"
#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "service/rpc/pace.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse::rpc {
namespace {

using Making = Outbox::Making;

class UnsentObserver final : public RpcObserver {
 public:
  void OnStarted(Method) override {}
  void OnFinished(Method, absl::StatusCode, absl::Duration) override {}
  void OnPlanned(absl::Duration, double) override {}
  void OnUnsent(Method, int64_t responses, int64_t bytes) override {
    responses_ += responses;
    bytes_ += bytes;
  }
  int64_t responses() const { return responses_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t responses_ = 0;
  int64_t bytes_ = 0;
};

grpc::ByteBuffer Bytes(size_t size) {
  const grpc::Slice slice(std::string(size, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Add(Outbox& outbox, size_t size) {
  grpc::ByteBuffer bytes = Bytes(size);
  absl::Status added = outbox.Add(&bytes);
  // Taken, or left alone.
  EXPECT_EQ(bytes.Length(), added.ok() ? 0 : size);
  return added;
}

absl::Status Replace(Outbox& outbox, size_t size) {
  grpc::ByteBuffer bytes = Bytes(size);
  return outbox.Replace(&bytes);
}

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
      const auto making = static_cast<Making>(random.Below(3));
      if (grpc::ByteBuffer* const begun = outbox.Begin(making)) {
        ASSERT_EQ(sending, 0);
        sending = waiting.front();
        waiting.pop_front();
        ASSERT_EQ(begun->Length(), sending);
      } else if (making == Making::kNobody) {
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
    EXPECT_EQ(outbox.Begin(Making::kSender), nullptr);
  }
  ASSERT_THAT(Add(outbox, kBytes), IsOk());
  EXPECT_NE(outbox.Begin(Making::kSender), nullptr);
}

TEST_F(OutboxTest, TwoLargeResponsesWaitForEachOtherWhileAnotherThreadMakesThem) {
  Outbox outbox(Context(), Method::kLoad);
  ASSERT_THAT(Add(outbox, Outbox::kBeginBytes), IsOk());
  EXPECT_EQ(outbox.Begin(Making::kOther), nullptr);
  ASSERT_THAT(Add(outbox, Outbox::kBeginBytes), IsOk());
  ASSERT_NE(outbox.Begin(Making::kOther), nullptr);
  outbox.End();
  EXPECT_EQ(outbox.Begin(Making::kOther), nullptr);
  EXPECT_NE(outbox.Begin(Making::kSender), nullptr);
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
  ASSERT_NE(outbox.Begin(Making::kNobody), nullptr);
  ASSERT_THAT(Replace(outbox, 20), IsOk());
  ASSERT_THAT(Replace(outbox, 30), IsOk());
  EXPECT_EQ(observer_.responses(), 2);
  EXPECT_EQ(observer_.bytes(), 40);
  outbox.End();
  EXPECT_EQ(outbox.Begin(Making::kNobody)->Length(), 30);
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
  ASSERT_NE(outbox.Begin(Making::kNobody), nullptr);
  EXPECT_FALSE(outbox.has_room());
  outbox.End();
  EXPECT_TRUE(outbox.has_room());
  EXPECT_THAT(Add(outbox, 1001), StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
}

TEST(PaceTest, OneSlowResponseCountsAtOnceAFastOneDoesNot) {
  SimulatedClock clock;
  Pace pace(&clock);
  const auto make = [&](absl::Duration time) {
    pace.Begin();
    clock.Advance(time);
    pace.End();
  };
  EXPECT_FALSE(pace.is_quick());
  for (int i = 0; i < Pace::kEnough; ++i) {
    EXPECT_FALSE(pace.is_quick());
    make(Pace::kQuick);
  }
  EXPECT_TRUE(pace.is_quick());
  make(Pace::kQuick + absl::Microseconds(1));
  EXPECT_FALSE(pace.is_quick());
  for (int i = 0; i < Pace::kEnough; ++i) make(absl::ZeroDuration());
  EXPECT_TRUE(pace.is_quick());
}

}  // namespace
}  // namespace packhouse::rpc
