#include "client/cli/next_fit.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;

GraphSizes Nodes(const std::vector<uint32_t>& nodes) {
  return {.components = {"nodes"}, .values = nodes, .counts = {}, .num_rows = nodes.size()};
}

TEST(NextFitTest, AGraphThatDoesNotFitClosesTheBatch) {
  // 4+4 | 4+2+2+2 | 9, at 10 rows: the batch of 8 is not gone back to.
  const PackingTotals totals = NextFit(Nodes({4, 4, 4, 2, 2, 2, 9}), {10, 0});
  EXPECT_EQ(totals.batches, 3);
  EXPECT_EQ(totals.graphs, 7);
  EXPECT_EQ(totals.rejected, 0);
  EXPECT_THAT(totals.rows, ElementsAre(27, 7));
}

TEST(NextFitTest, EachCapacityBinds) {
  EXPECT_EQ(NextFit(Nodes({1, 1, 1, 1, 1}), {100, 2}).batches, 3);
  const GraphSizes pairs = {
      .components = {"nodes", "edges"}, .values = {1, 6, 1, 5, 9, 1}, .counts = {}, .num_rows = 3};
  EXPECT_EQ(NextFit(pairs, {10, 10, 0}).batches, 2);
  EXPECT_EQ(NextFit(pairs, {10, 0, 0}).batches, 2);
  EXPECT_EQ(NextFit(pairs, {0, 12, 0}).batches, 1);
}

TEST(NextFitTest, OversizeGraphsAreRejectedAndCloseNothing) {
  const PackingTotals totals = NextFit(Nodes({4, 11, 4}), {10, 0});
  EXPECT_EQ(totals.batches, 1);
  EXPECT_EQ(totals.rejected, 1);
  EXPECT_THAT(totals.rows, ElementsAre(8, 2));
}

TEST(NextFitTest, NothingTakesNoBatch) {
  EXPECT_EQ(NextFit(Nodes({}), {10, 0}).batches, 0);
  EXPECT_EQ(NextFit(Nodes({11}), {10, 0}).batches, 0);
  // A graph of no rows is still a graph.
  EXPECT_EQ(NextFit(Nodes({0}), {10, 0}).batches, 1);
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
