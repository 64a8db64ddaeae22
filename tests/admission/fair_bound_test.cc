#include "service/access/fair_bound.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

// Takes places until there are none.
std::vector<FairBound::Place> TakeAll(FairBound& bound, const ClientId& client) {
  std::vector<FairBound::Place> taken;
  for (;;) {
    auto place = bound.Enter(client);
    if (!place.ok()) return taken;
    taken.push_back(*std::move(place));
  }
}

TEST(FairBoundTest, BoundsEachClientAndAll) {
  FairBound bound("doors", "--max-doors", {.most = 16, .most_of_client = 10});
  const auto of_a = TakeAll(bound, "a");
  EXPECT_EQ(of_a.size(), 10U);
  EXPECT_THAT(bound.Enter("a").status(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("doors: client 'a' has 10, at most 10 (--max-doors)")));
  const auto of_b = TakeAll(bound, "b");
  EXPECT_EQ(of_b.size(), 4U);
  EXPECT_THAT(bound.Enter("b").status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                                  HasSubstr("there are 14, at most 14")));
}

// However many places two clients want, others come in.
TEST(FairBoundTest, TheLastEighthIsForClientsThatHaveFew) {
  FairBound bound("doors", "--max-doors", {.most = 64, .most_of_client = 64});
  const auto of_a = TakeAll(bound, "a");
  EXPECT_EQ(of_a.size(), 56U);
  const auto of_b = TakeAll(bound, "b");
  EXPECT_EQ(of_b.size(), FairBound::kFew);
  const auto of_c = TakeAll(bound, "c");
  EXPECT_EQ(of_c.size(), FairBound::kFew);
  EXPECT_THAT(bound.Enter("late").status(),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("there are 64")));
}

TEST(FairBoundTest, APlaceIsGivenBackOnceAndClientsLeaveNothing) {
  FairBound bound("doors", "--max-doors", {.most = 2, .most_of_client = 2});
  {
    auto first = bound.Enter("a");
    ASSERT_THAT(first.status(), IsOk());
    FairBound::Place moved = *std::move(first);
    FairBound::Place again;
    again = std::move(moved);
    EXPECT_EQ(bound.count(), 1U);
    again.Reset();
    again.Reset();
    EXPECT_EQ(bound.count(), 0U);
    ASSERT_THAT(bound.Enter("b").status(), IsOk());
  }
  EXPECT_EQ(bound.count(), 0U);
  EXPECT_EQ(bound.num_clients(), 0U);
}

}  // namespace
}  // namespace packhouse
