#include "client/cli/next_fit.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NextFitTest, AGraphThatDoesNotFitClosesTheBatch) {
  // 4+4 | 4+2+2+2 | 9, at 10 rows: the batch of 8 is not gone back to.
  EXPECT_THAT(NextFit({4, 4, 4, 2, 2, 2, 9}, {10, 0}), ElementsAre(0, 0, 1, 1, 1, 1, 2));
}

TEST(NextFitTest, EachCapacityBinds) {
  EXPECT_THAT(NextFit({1, 1, 1, 1, 1}, {100, 2}), ElementsAre(0, 0, 1, 1, 2));
  // Nodes and edges of three graphs.
  EXPECT_THAT(NextFit({1, 6, 1, 5, 9, 1}, {10, 10, 0}), ElementsAre(0, 1, 1));
  EXPECT_THAT(NextFit({1, 6, 1, 5, 9, 1}, {10, 0, 0}), ElementsAre(0, 0, 1));
  EXPECT_THAT(NextFit({1, 6, 1, 5, 9, 1}, {0, 12, 0}), ElementsAre(0, 0, 0));
}

TEST(NextFitTest, OversizeGraphsAreRejectedAndCloseNothing) {
  EXPECT_THAT(NextFit({4, 11, 4}, {10, 0}), ElementsAre(0, kNoBatch, 0));
  EXPECT_THAT(NextFit({11, 4}, {10, 0}), ElementsAre(kNoBatch, 0));
}

TEST(NextFitTest, NothingTakesNoBatch) {
  EXPECT_THAT(NextFit({}, {10, 0}), IsEmpty());
  // A graph of no rows is still a graph.
  EXPECT_THAT(NextFit({0}, {10, 0}), ElementsAre(0));
}

TEST(VolumeBoundTest, IsTheTightestComponentRoundedUp) {
  EXPECT_EQ(VolumeBound({100, 100, 10}, {10, 50, 0}), 10);
  EXPECT_EQ(VolumeBound({101, 100, 10}, {10, 50, 0}), 11);
  EXPECT_EQ(VolumeBound({1, 1, 10}, {10, 50, 1}), 10);
  EXPECT_EQ(VolumeBound({0, 0}, {10, 0}), 0);
  EXPECT_EQ(VolumeBound({~uint64_t{0}, 0}, {2, 0}), uint64_t{1} << 63);
}

}  // namespace
}  // namespace packhouse::client
