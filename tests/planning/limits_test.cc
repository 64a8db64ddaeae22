#include "service/algorithms/planning/limits.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

TEST(LimitsTest, CapacitiesComeBack) {
  PH_ASSERT_OK_AND_ASSIGN(const Limits limits, Limits::Create({10, kUnlimited, 1}));
  EXPECT_EQ(limits.num_components(), 2);
  EXPECT_EQ(limits.capacity(0), 10);
  EXPECT_TRUE(limits.has_limit(0));
  EXPECT_EQ(limits.capacity(1), kUnlimited);
  EXPECT_FALSE(limits.has_limit(1));
  EXPECT_EQ(limits.graphs(), 1);
  EXPECT_TRUE(limits.has_limit(2));
  EXPECT_THAT(limits.capacities(), testing::ElementsAre(10, kUnlimited, 1));
}

TEST(LimitsTest, SomethingMustBeLimited) {
  const auto refused = StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("no component has a capacity above 0"));
  EXPECT_THAT(Limits::Create({kUnlimited, kUnlimited, kUnlimited}), refused);
  EXPECT_THAT(Limits::Create({kUnlimited}), refused);
  EXPECT_THAT(Limits::Create({}), refused);
  EXPECT_THAT(Limits::Create({kUnlimited, kUnlimited, 1}), IsOk());
  EXPECT_THAT(Limits::Create({5}), IsOk());
}

TEST(LimitsTest, ACapacityOfZeroIsRefused) {
  EXPECT_THAT(Limits::Create({10, 0, 5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "limits: capacity 0 of component number 1; at least 1 is needed"));
  EXPECT_THAT(Limits::Create({10, 5, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("component number 2;")));
  EXPECT_THAT(Limits::Create({0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("component number 0;")));
}

TEST(LimitsTest, TheFirstComponentThatIsExceededIsNamed) {
  PH_ASSERT_OK_AND_ASSIGN(const Limits limits, Limits::Create({10, kUnlimited, 5, 1}));
  EXPECT_EQ(limits.FirstExceeded({{10, UINT32_MAX, 5}}), std::nullopt);
  EXPECT_EQ(limits.FirstExceeded({{11, 0, 6}}), 0);
  EXPECT_EQ(limits.FirstExceeded({{0, 0, 6}}), 2);
  EXPECT_EQ(limits.FirstExceeded({{0, 0, 0}}), std::nullopt);
}

TEST(LimitsTest, EqualByCapacities) {
  EXPECT_EQ(Limits::Create({10, 5}).value(), Limits::Create({10, 5}).value());
  EXPECT_FALSE(Limits::Create({10, 5}).value() == Limits::Create({10, 6}).value());
  EXPECT_FALSE(Limits::Create({10, 5}).value() == Limits::Create({10, 5, 5}).value());
}

}  // namespace
}  // namespace packhouse
