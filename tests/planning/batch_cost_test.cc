#include "service/algorithms/planning/batch_cost.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

BatchCost CostOf(std::vector<CostTerm> terms) {
  return BatchCost::Create(std::move(terms), 2).value();
}
double ValueOf(const BatchCost& cost, std::vector<uint64_t> rows, std::vector<uint64_t> squares) {
  return static_cast<double>(cost.Of(rows, squares)) * cost.unit();
}

TEST(BatchCostTest, IsThePolynomial) {
  const BatchCost cost = CostOf({{CostForm::kRows, 1, 2},
                                 {CostForm::kSquaredRows, 0, 0.5},
                                 {CostForm::kSumOfSquares, 0, 0.25},
                                 {CostForm::kRows, 2, 4},
                                 {CostForm::kBatch, 0, 8}});
  EXPECT_TRUE(cost.has_squares());
  // Nodes, edges, graphs.
  EXPECT_DOUBLE_EQ(ValueOf(cost, {10, 100, 3}, {36, 0}), 2 * 100 + 0.5 * 100 + 0.25 * 36 + 12 + 8);
  EXPECT_FALSE(CostOf({{CostForm::kSquaredRows, 0, 1}}).has_squares());
}

// The largest batch that there can be does not wrap around to a cheap one.
TEST(BatchCostTest, CostsAscendWithRows) {
  const BatchCost cost = CostOf(std::vector<CostTerm>(64, {CostForm::kSquaredRows, 0, 1}));
  absl::uint128 before = 0;
  for (const uint64_t rows : {uint64_t{1}, uint64_t{1} << 32, uint64_t{1} << 44, kMost}) {
    const absl::uint128 now = cost.Of(std::vector<uint64_t>{rows, 0, 0}, {});
    EXPECT_GT(now, before);
    EXPECT_LT(now, absl::uint128(1) << 127);
    before = now;
  }
}

// However small, a weight counts.
TEST(BatchCostTest, NoTermIsRoundedAway) {
  const BatchCost cost = CostOf({{CostForm::kRows, 0, 1e12}, {CostForm::kRows, 1, 1e-12}});
  EXPECT_GT(cost.Of(std::vector<uint64_t>{5, 7, 1}, {}),
            cost.Of(std::vector<uint64_t>{5, 6, 1}, {}));
}

TEST(BatchCostTest, WordsSayTheTerms) {
  const std::vector<std::vector<CostTerm>> all = {
      {{CostForm::kRows, 0, 1}},
      {{CostForm::kRows, 0, 0.1}, {CostForm::kSquaredRows, 2, 1e-9}},
      {{CostForm::kSumOfSquares, 1, 1.0 / 3}, {CostForm::kBatch, 0, 2.5e10}},
  };
  for (const auto& terms : all) {
    const BatchCost cost = CostOf(terms);
    const auto read = BatchCost::FromWords(cost.Words(), 2);
    ASSERT_TRUE(read.has_value()) << cost.Words();
    EXPECT_EQ(read->terms(), terms);
  }
  EXPECT_EQ(CostOf(all[0]).Words(), "1*c0");
  EXPECT_EQ(CostOf({{CostForm::kSumOfSquares, 1, 2}, {CostForm::kBatch, 0, 7}}).Words(),
            "2*sum c1^2 + 7*batch");
  for (const char* const words : {"", "1", "1*", "x*c0", "1*c3", "1*sum c2^2", "1*sum c0", "-1*c0",
                                  "1*c0 + ", "1*c0 + 0*c1", "1*c0^3", "nan*c0"}) {
    EXPECT_FALSE(BatchCost::FromWords(words, 2).has_value()) << words;
  }
}

TEST(BatchCostTest, RefusesByName) {
  const auto refused = [](std::vector<CostTerm> terms, const std::string& text) {
    EXPECT_THAT(BatchCost::Create(std::move(terms), 2),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  refused({}, "0 terms, must be 1 to 64");
  refused(std::vector<CostTerm>(65), "65 terms, must be 1 to 64");
  refused({{CostForm::kRows, 0, 1}, {CostForm::kRows, 0, 0}}, "term 1 has weight 0");
  refused({{CostForm::kRows, 0, -1}}, "weight -1");
  refused({{CostForm::kRows, 0, std::numeric_limits<double>::infinity()}}, "weight inf");
  refused({{CostForm::kRows, 3, 1}}, "of component 3, there are 2 and graphs");
  refused({{CostForm::kSumOfSquares, 2, 1}}, "of component 2, there are 2 that graphs have rows");
}

}  // namespace
}  // namespace packhouse
