#include "service/algorithms/histograms/tuple_index.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

using Tuple = std::vector<uint32_t>;

// The oracle: rows in order of insertion; the last one takes the place of a removed one.
class ListOfTuples {
 public:
  std::optional<uint32_t> Find(const Tuple& tuple) const {
    const auto found = std::find(tuples_.begin(), tuples_.end(), tuple);
    if (found == tuples_.end()) return std::nullopt;
    return found - tuples_.begin();
  }
  uint32_t FindOrInsert(const Tuple& tuple) {
    if (const auto row = Find(tuple)) return *row;
    tuples_.push_back(tuple);
    return tuples_.size() - 1;
  }
  void Remove(uint32_t row) {
    std::swap(tuples_[row], tuples_.back());
    tuples_.pop_back();
  }
  const std::vector<Tuple>& tuples() const { return tuples_; }

 private:
  std::vector<Tuple> tuples_;
};

void ExpectEquals(const TupleIndex& index, const ListOfTuples& oracle) {
  ASSERT_EQ(index.num_rows(), oracle.tuples().size());
  for (uint32_t row = 0; row < index.num_rows(); ++row) {
    const Tuple& tuple = oracle.tuples()[row];
    EXPECT_EQ(Tuple(index.tuple(row).begin(), index.tuple(row).end()), tuple);
    EXPECT_EQ(index.Find(tuple), row);
  }
}

// As many values as are needed for about `num_distinct` tuples, some of them huge.
Tuple RandomTuple(Random& random, size_t l, uint64_t num_distinct) {
  Tuple tuple(l, 0);
  uint64_t rest = random.Below(num_distinct);
  for (uint32_t& count : tuple) {
    count = static_cast<uint32_t>(rest % 8) << (rest % 2 == 0 ? 0 : 29);
    rest /= 8;
  }
  return tuple;
}

// Rows are those of a plain list after every step of a random life, whatever the number of
// components: whether it grows, shrinks, or is shown many tuples at a time.
TEST(TupleIndexTest, FollowsTheOracle) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = seed % 6;
    const uint64_t num_distinct = uint64_t{1} << (1 + random.Below(10));
    TupleIndex index(l);
    ListOfTuples oracle;
    for (int step = 0; step < 30; ++step) {
      switch (random.Below(4)) {
        case 0: {
          const Tuple tuple = RandomTuple(random, l, num_distinct);
          EXPECT_EQ(index.Find(tuple), oracle.Find(tuple));
          EXPECT_EQ(index.FindOrInsert(tuple), oracle.FindOrInsert(tuple));
          break;
        }
        case 1: {
          const size_t n = random.Below(200);
          std::vector<uint32_t> tuples;
          std::vector<uint32_t> expected;
          for (size_t i = 0; i < n; ++i) {
            const Tuple tuple = RandomTuple(random, l, num_distinct);
            tuples.insert(tuples.end(), tuple.begin(), tuple.end());
            expected.push_back(oracle.FindOrInsert(tuple));
          }
          std::vector<uint32_t> rows;
          index.ForEachRow(tuples, n, [&](absl::Span<const uint32_t> some) {
            for (const uint32_t row : some) EXPECT_LT(row, index.num_rows());
            rows.insert(rows.end(), some.begin(), some.end());
          });
          EXPECT_EQ(rows, expected);
          break;
        }
        default:
          for (uint64_t i = random.Below(20); i != 0 && index.num_rows() != 0; --i) {
            const uint32_t row = random.Below(index.num_rows());
            index.Remove(row);
            oracle.Remove(row);
          }
      }
      ExpectEquals(index, oracle);
      if (HasFailure()) return;
    }
    while (index.num_rows() != 0) index.Remove(0);
    EXPECT_EQ(index.Find(Tuple(l, 0)), std::nullopt);
  }
}

// Half of the slots are free at most: removal has clusters to mend, at every place of the table.
TEST(TupleIndexTest, WhatIsNotRemovedStaysFound) {
  constexpr uint32_t kNumTuples = 20000;
  for (const uint32_t stride : {1u, 256u, 65536u}) {
    SCOPED_TRACE(testing::Message() << "stride=" << stride);
    TupleIndex index(1);
    for (uint32_t i = 0; i < kNumTuples; ++i) index.FindOrInsert({i * stride});
    for (uint32_t i = 0; i < kNumTuples; i += 2) index.Remove(*index.Find({i * stride}));
    ASSERT_EQ(index.num_rows(), kNumTuples / 2);
    for (uint32_t i = 0; i < kNumTuples; ++i) {
      const auto row = index.Find({i * stride});
      ASSERT_EQ(row.has_value(), i % 2 == 1) << i;
      if (row) {
        ASSERT_EQ(index.tuple(*row)[0], i * stride);
      }
    }
  }
}

// A copy has a life of its own.
TEST(TupleIndexTest, CopiesAreIndependent) {
  TupleIndex index(2);
  index.FindOrInsert({1, 2});
  TupleIndex copy = index;
  copy.FindOrInsert({3, 4});
  index.Remove(0);
  EXPECT_EQ(index.num_rows(), 0);
  EXPECT_EQ(copy.Find({1, 2}), 0);
  EXPECT_EQ(copy.Find({3, 4}), 1);
}

}  // namespace
}  // namespace packhouse
