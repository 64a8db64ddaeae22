#include "service/algorithms/sizes/size_table.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SizeTableTest, ConsecutiveIds) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable table,
                          SizeTable::WithConsecutiveIds(3, 2, {1, 2, 3, 4, 5, 6}, 10));
  EXPECT_EQ(table.num_graphs(), 3);
  EXPECT_EQ(table.num_components(), 2);
  EXPECT_THAT(table.tuple(0), ElementsAre(1, 2));
  EXPECT_THAT(table.tuple(2), ElementsAre(5, 6));
  EXPECT_EQ(table.graph_id(0), 10);
  EXPECT_EQ(table.graph_id(2), 12);
}

TEST(SizeTableTest, GivenIds) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable table, SizeTable::WithIds(2, 1, {7, 8}, {UINT64_MAX, 0}));
  EXPECT_THAT(table.tuple(1), ElementsAre(8));
  EXPECT_EQ(table.graph_id(0), UINT64_MAX);
  EXPECT_EQ(table.graph_id(1), 0);
}

TEST(SizeTableTest, EmptyTables) {
  EXPECT_EQ(SizeTable().num_graphs(), 0);
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable consecutive,
                          SizeTable::WithConsecutiveIds(0, 2, {}, UINT64_MAX));
  EXPECT_EQ(consecutive.num_graphs(), 0);
  EXPECT_THAT(SizeTable::WithIds(0, 2, {}, {}), IsOk());
}

TEST(SizeTableTest, GraphsWithoutComponents) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable table, SizeTable::WithConsecutiveIds(5, 0, {}, 1));
  EXPECT_EQ(table.num_graphs(), 5);
  EXPECT_THAT(table.tuple(4), IsEmpty());
  EXPECT_EQ(table.graph_id(4), 5);
}

TEST(SizeTableTest, CountsMustFillTheTable) {
  const auto invalid = [](const char* message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, message);
  };
  EXPECT_THAT(SizeTable::WithConsecutiveIds(2, 2, {1, 2, 3}, 0),
              invalid("sizes: 3 counts for 2 graphs of 2 components"));
  EXPECT_THAT(SizeTable::WithConsecutiveIds(1, 2, {1, 2, 3}, 0),
              invalid("sizes: 3 counts for 1 graphs of 2 components"));
  EXPECT_THAT(SizeTable::WithIds(2, 0, {1}, {1, 2}),
              invalid("sizes: 1 counts for 2 graphs of 0 components"));
  // n * l = 2^64, which must not pass for 0.
  EXPECT_THAT(SizeTable::WithConsecutiveIds(size_t{1} << 62, 4, {}, 0),
              invalid("sizes: 0 counts for 4611686018427387904 graphs of 4 components"));
}

TEST(SizeTableTest, ConsecutiveIdsDoNotWrapAround) {
  EXPECT_THAT(SizeTable::WithConsecutiveIds(2, 1, {1, 1}, UINT64_MAX - 2), IsOk());
  EXPECT_THAT(SizeTable::WithConsecutiveIds(2, 1, {1, 1}, UINT64_MAX - 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "sizes: first_id 18446744073709551614 + 2 graphs exceeds 2^64 - 1"));
}

TEST(SizeTableTest, OneIdAGraphAndNoneTwice) {
  EXPECT_THAT(SizeTable::WithIds(2, 1, {1, 1}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument, "sizes: 1 graph ids for 2 graphs"));
  for (const std::vector<uint64_t>& ids :
       {std::vector<uint64_t>{5, 6, 5}, {5, 5, 6}, {4, 5, 5}, {5, 4, 5}}) {
    EXPECT_THAT(SizeTable::WithIds(3, 1, {1, 1, 1}, ids),
                StatusIs(absl::StatusCode::kInvalidArgument, "sizes: graph id 5 occurs twice"));
  }
  // Pieces of one graph.
  EXPECT_THAT(SizeTable::WithAnyIds(2, 1, {1, 1}, {5}),
              StatusIs(absl::StatusCode::kInvalidArgument, "sizes: 1 graph ids for 2 graphs"));
  EXPECT_THAT(
      SizeTable::WithAnyIds(2, 1, {1}, {5, 5}),
      StatusIs(absl::StatusCode::kInvalidArgument, "sizes: 1 counts for 2 graphs of 1 components"));
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable pieces, SizeTable::WithAnyIds(2, 1, {1, 2}, {5, 5}));
  EXPECT_EQ(pieces.graph_id(1), 5);
  for (const std::vector<uint64_t>& ids : {std::vector<uint64_t>{5, 6, 7}, {7, 6, 5}, {6, 7, 5}}) {
    EXPECT_THAT(SizeTable::WithIds(3, 1, {1, 1, 1}, ids), IsOk());
  }
}

TEST(SizesViewTest, ViewsATableOrCountsWhereTheyLie) {
  PH_ASSERT_OK_AND_ASSIGN(const SizeTable table,
                          SizeTable::WithConsecutiveIds(2, 2, {1, 2, 3, 4}, 7));
  const SizesView of_table = table;
  EXPECT_EQ(of_table.num_graphs(), 2);
  EXPECT_EQ(of_table.num_components(), 2);
  EXPECT_EQ(of_table.counts().data(), table.counts().data());
  EXPECT_EQ(of_table.counts().size(), 4);

  const std::vector<uint32_t> counts = {1, 2, 3};
  PH_ASSERT_OK_AND_ASSIGN(const SizesView view, SizesView::Create(3, 1, counts));
  EXPECT_EQ(view.counts().data(), counts.data());
  EXPECT_THAT(
      SizesView::Create(2, 1, counts),
      StatusIs(absl::StatusCode::kInvalidArgument, "sizes: 3 counts for 2 graphs of 1 components"));
}

}  // namespace
}  // namespace packhouse
