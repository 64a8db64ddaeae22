// Links that are not there.
#include "client/cli/source_graphs/negative_links.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

const std::vector<Link>& SomeLinks() {
  static const auto& links = *new std::vector<Link>{{0, 1}, {2, 0}, {1, 1}};
  return links;
}

NegativeLinkOptions Options(double amount, bool keep_sources) {
  NegativeLinkOptions options;
  options.amount = amount;
  options.keep_sources = keep_sources;
  options.seed = 7;
  options.num_sources = 3;
  options.num_targets = 5;
  return options;
}

TEST(DrawNegativeLinksTest, ThereAreAsManyAsAskedForBesideTheirLinks) {
  PH_ASSERT_OK_AND_ASSIGN(const auto triplets, DrawNegativeLinks(SomeLinks(), Options(2, true)));
  ASSERT_EQ(triplets.size(), 6U);
  for (uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(triplets[i].beside, i / 2);
    EXPECT_EQ(triplets[i].link.first, SomeLinks()[i / 2].first);
    EXPECT_LT(triplets[i].link.second, 5U);
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto binary, DrawNegativeLinks(SomeLinks(), Options(1.4, false)));
  ASSERT_EQ(binary.size(), 5U);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(binary[i].beside, i % 3);
  PH_ASSERT_OK_AND_ASSIGN(const auto none, DrawNegativeLinks(SomeLinks(), Options(0, true)));
  EXPECT_TRUE(none.empty());
  PH_ASSERT_OK_AND_ASSIGN(const auto of_none, DrawNegativeLinks({}, Options(3, false)));
  EXPECT_TRUE(of_none.empty());
}

TEST(DrawNegativeLinksTest, AllNodesAreDrawnAlike) {
  const std::vector<Link> links(30000, {0, 0});
  PH_ASSERT_OK_AND_ASSIGN(const auto negatives, DrawNegativeLinks(links, Options(1, false)));
  std::vector<double> counts(15);
  for (const NegativeLink& negative : negatives) {
    ++counts[negative.link.first * 5 + negative.link.second];
  }
  double statistic = 0;
  for (const double count : counts) statistic += (count - 2000) * (count - 2000) / 2000;
  // The 99.9 % quantile of chi-square with 14 degrees of freedom; the seed is always the same.
  EXPECT_LT(statistic, 36.12);
}

TEST(DrawNegativeLinksTest, NoneIsAmongThoseToAvoid) {
  NegativeLinkOptions options = Options(50, true);
  // Of source 1 only one target is left.
  for (uint64_t target = 0; target < 4; ++target) options.avoid.push_back({1, target});
  options.avoid.push_back({0, 3});
  PH_ASSERT_OK_AND_ASSIGN(const auto negatives, DrawNegativeLinks(SomeLinks(), options));
  for (const NegativeLink& negative : negatives) {
    EXPECT_NE(negative.link, Link(0, 3));
    if (negative.link.first == 1) {
      EXPECT_EQ(negative.link.second, 4U);
    }
  }
  options.avoid.push_back({1, 4});
  EXPECT_THAT(DrawNegativeLinks(SomeLinks(), options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("avoid, 1 to ")));
}

TEST(DrawNegativeLinksTest, AmountsThatAreNoneAreRefused) {
  for (const double amount : {-0.5, 2e6, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_THAT(DrawNegativeLinks(SomeLinks(), Options(amount, false)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from 0 to 1e+06")));
  }
  EXPECT_THAT(DrawNegativeLinks(SomeLinks(), Options(0.5, true)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a whole number")));
  NegativeLinkOptions empty = Options(1, false);
  empty.num_targets = 0;
  EXPECT_THAT(DrawNegativeLinks(SomeLinks(), empty),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no nodes")));
}

}  // namespace
}  // namespace packhouse::client
