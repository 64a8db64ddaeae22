#include "tests/packing/next_fit.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Limits NextFitLimits(const std::vector<uint64_t>& capacities) {
  return Limits::Create(capacities).value();
}

TEST(NextFitTest, AGraphThatDoesNotFitClosesThePack) {
  // 4+4 | 4+2+2+2 | 9, at 10 rows: the pack of 8 is not gone back to.
  EXPECT_THAT(NextFit({4, 4, 4, 2, 2, 2, 9}, NextFitLimits({10, kUnlimited})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4, 5), ElementsAre(6)));
}

TEST(NextFitTest, EachCapacityBinds) {
  EXPECT_THAT(NextFit({1, 1, 1, 1, 1}, NextFitLimits({100, 2})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  // Nodes and edges of three graphs.
  EXPECT_THAT(NextFit({1, 6, 1, 5, 9, 1}, NextFitLimits({10, 10, kUnlimited})),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2)));
  EXPECT_THAT(NextFit({1, 6, 1, 5, 9, 1}, NextFitLimits({10, kUnlimited, kUnlimited})),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(NextFitTest, NothingTakesNoPack) {
  EXPECT_THAT(NextFit({}, NextFitLimits({10, kUnlimited})), IsEmpty());
  // A graph of no rows is still a graph.
  EXPECT_THAT(NextFit({0}, NextFitLimits({10, kUnlimited})), ElementsAre(ElementsAre(0)));
}

}  // namespace
}  // namespace packhouse
