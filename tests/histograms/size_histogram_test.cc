#include "service/algorithms/histograms/size_histogram.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Tuple = std::vector<uint32_t>;
// The oracle: whatever a histogram says must follow from this.
using Counts = std::map<Tuple, uint64_t>;

void ExpectEquals(const SizeHistogram& histogram, const Counts& counts) {
  const size_t l = histogram.num_components();
  uint64_t graphs = 0;
  std::vector<uint64_t> totals(l, 0);
  std::vector<uint32_t> maxima(l, 0);
  for (const auto& [tuple, count] : counts) {
    ASSERT_NE(count, 0);
    graphs += count;
    for (size_t k = 0; k < l; ++k) {
      totals[k] += tuple[k] * count;
      maxima[k] = std::max(maxima[k], tuple[k]);
    }
    EXPECT_EQ(histogram.CountOf(tuple), count);
  }
  EXPECT_EQ(histogram.num_graphs(), graphs);
  EXPECT_EQ(histogram.num_distinct(), counts.size());
  for (size_t k = 0; k < l; ++k) {
    EXPECT_EQ(histogram.total(k), totals[k]) << "component " << k;
    EXPECT_EQ(histogram.maximum(k), maxima[k]) << "component " << k;
  }
  Counts listed;
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    const auto tuple = histogram.tuple(row);
    listed[Tuple(tuple.begin(), tuple.end())] += histogram.count(row);
  }
  EXPECT_EQ(listed, counts);
  std::vector<Tuple> sorted;
  for (const uint32_t row : histogram.SortedRows()) {
    sorted.emplace_back(histogram.tuple(row).begin(), histogram.tuple(row).end());
  }
  std::vector<Tuple> keys;
  for (const auto& [tuple, count] : counts) keys.push_back(tuple);
  EXPECT_EQ(sorted, keys);
}

Counts CountsOf(const SizeHistogram& histogram) {
  Counts counts;
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    const auto tuple = histogram.tuple(row);
    counts[Tuple(tuple.begin(), tuple.end())] = histogram.count(row);
  }
  return counts;
}

// Few distinct values, so that tuples, maxima and empty rows come and go often.
Tuple RandomTuple(Random& random, size_t l) {
  Tuple tuple(l);
  for (uint32_t& size : tuple) size = static_cast<uint32_t>(random.Below(4) * random.Below(3));
  return tuple;
}

SizeHistogram RandomHistogram(Random& random, size_t l) {
  SizeHistogram histogram(l);
  for (uint64_t i = random.Below(12); i != 0; --i) {
    EXPECT_THAT(histogram.Add(RandomTuple(random, l), random.Below(5)), IsOk());
  }
  return histogram;
}

SizeHistogram HistogramOf(size_t l, const Counts& counts) {
  SizeHistogram histogram(l);
  for (const auto& [tuple, count] : counts) EXPECT_THAT(histogram.Add(tuple, count), IsOk());
  return histogram;
}

SizeHistogram Merged(SizeHistogram a, const SizeHistogram& b) {
  EXPECT_THAT(a.Merge(b), IsOk());
  return a;
}

// Everything a histogram tells equals recomputation, after every step of a random life.
TEST(SizeHistogramTest, FollowsTheOracle) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Below(6);
    SizeHistogram histogram(l);
    Counts oracle;
    const auto subtract = [&oracle](const Tuple& tuple, uint64_t count) {
      const auto found = oracle.find(tuple);
      if ((found->second -= count) == 0) oracle.erase(found);
    };
    const auto contains = [&oracle](const Tuple& tuple, uint64_t count) {
      const auto found = oracle.find(tuple);
      return count == 0 || (found != oracle.end() && found->second >= count);
    };
    for (int step = 0; step < 60; ++step) {
      switch (random.Below(5)) {
        case 0: {
          const Tuple tuple = RandomTuple(random, l);
          const uint64_t count = random.Below(4);
          ASSERT_THAT(histogram.Add(tuple, count), IsOk());
          if (count != 0) oracle[tuple] += count;
          break;
        }
        case 1: {
          const Tuple tuple = RandomTuple(random, l);
          const uint64_t count = random.Below(4);
          if (contains(tuple, count)) {
            ASSERT_THAT(histogram.Remove(tuple, count), IsOk());
            if (count != 0) subtract(tuple, count);
          } else {
            ASSERT_THAT(histogram.Remove(tuple, count),
                        StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("cannot remove")));
          }
          break;
        }
        case 2: {
          const SizeHistogram other = RandomHistogram(random, l);
          ASSERT_THAT(histogram.Merge(other), IsOk());
          for (const auto& [tuple, count] : CountsOf(other)) oracle[tuple] += count;
          break;
        }
        case 3: {
          const Counts other = CountsOf(RandomHistogram(random, l));
          const bool possible = std::all_of(other.begin(), other.end(), [&](const auto& entry) {
            return contains(entry.first, entry.second);
          });
          const absl::Status status = histogram.Subtract(HistogramOf(l, other));
          if (possible) {
            ASSERT_THAT(status, IsOk());
            for (const auto& [tuple, count] : other) subtract(tuple, count);
          } else {
            ASSERT_THAT(status,
                        StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("cannot remove")));
          }
          break;
        }
        case 4: {
          const size_t n = random.Below(6);
          std::vector<uint32_t> sizes;
          for (size_t i = 0; i < n; ++i) {
            const Tuple tuple = RandomTuple(random, l);
            sizes.insert(sizes.end(), tuple.begin(), tuple.end());
            ++oracle[tuple];
          }
          PH_ASSERT_OK_AND_ASSIGN(const SizeTable table,
                                  SizeTable::WithConsecutiveIds(n, l, sizes, 0));
          ASSERT_THAT(histogram.AddTable(table), IsOk());
          break;
        }
      }
      ExpectEquals(histogram, oracle);
      if (HasFailure()) return;
    }
  }
}

TEST(SizeHistogramTest, AnEmptyHistogramHasZerosEverywhere) {
  for (const size_t l : {0, 1, 5}) ExpectEquals(SizeHistogram(l), {});
}

TEST(SizeHistogramTest, WithoutComponentsThereIsOneSize) {
  SizeHistogram histogram(0);
  ASSERT_THAT(histogram.Add({}, 3), IsOk());
  ASSERT_THAT(histogram.AddTable(SizeTable::WithConsecutiveIds(4, 0, {}, 0).value()), IsOk());
  EXPECT_EQ(histogram.num_graphs(), 7);
  EXPECT_EQ(histogram.num_distinct(), 1);
  EXPECT_THAT(histogram.tuple(0), IsEmpty());
  ASSERT_THAT(histogram.Remove({}, 7), IsOk());
  EXPECT_EQ(histogram, SizeHistogram(0));
}

TEST(SizeHistogramTest, EmptyGraphsAreCounted) {
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({{0, 0}}, 5), IsOk());
  EXPECT_EQ(histogram.num_graphs(), 5);
  EXPECT_EQ(histogram.total(0), 0);
  EXPECT_EQ(histogram.maximum(0), 0);
  EXPECT_EQ(histogram.num_distinct(), 1);
}

TEST(SizeHistogramTest, MergeIsCommutativeAndAssociativeAndUndoneBySubtract) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const size_t l = random.Below(4);
    const SizeHistogram a = RandomHistogram(random, l);
    const SizeHistogram b = RandomHistogram(random, l);
    const SizeHistogram c = RandomHistogram(random, l);
    EXPECT_EQ(Merged(a, b), Merged(b, a));
    EXPECT_EQ(Merged(Merged(a, b), c), Merged(a, Merged(b, c)));
    EXPECT_EQ(Merged(a, SizeHistogram(l)), a);
    SizeHistogram back = Merged(a, b);
    ASSERT_THAT(back.Subtract(b), IsOk());
    EXPECT_EQ(back, a);
    ExpectEquals(back, CountsOf(a));
  }
}

TEST(SizeHistogramTest, EqualIffSameCounts) {
  const SizeHistogram a = HistogramOf(2, {{{1, 2}, 3}, {{2, 1}, 4}});
  EXPECT_EQ(a, HistogramOf(2, {{{2, 1}, 4}, {{1, 2}, 3}}));
  EXPECT_FALSE(a == HistogramOf(2, {{{1, 2}, 4}, {{2, 1}, 3}}));
  EXPECT_FALSE(a == HistogramOf(2, {{{1, 2}, 3}, {{2, 2}, 4}}));
  EXPECT_FALSE(a == HistogramOf(2, {{{1, 2}, 7}}));
  EXPECT_FALSE(SizeHistogram(1) == SizeHistogram(2));
}

TEST(SizeHistogramTest, MergedWithItselfItDoubles) {
  Counts counts = {{{1, 2}, 3}, {{0, 0}, 4}, {{9, 1}, 1}};
  SizeHistogram histogram = HistogramOf(2, counts);
  ASSERT_THAT(histogram.Merge(histogram), IsOk());
  for (auto& [tuple, count] : counts) count *= 2;
  ExpectEquals(histogram, counts);
}

TEST(SizeHistogramTest, SubtractedFromItselfItIsEmpty) {
  SizeHistogram histogram = HistogramOf(2, {{{1, 2}, 3}, {{0, 0}, 4}, {{9, 1}, 1}});
  ASSERT_THAT(histogram.Subtract(histogram), IsOk());
  ExpectEquals(histogram, {});
  ASSERT_THAT(histogram.Add({{3, 4}}), IsOk());
  ExpectEquals(histogram, {{{3, 4}, 1}});
}

// A caller may hand a histogram its own rows.
TEST(SizeHistogramTest, ItsOwnTuplesMayBeArguments) {
  SizeHistogram histogram = HistogramOf(2, {{{1, 2}, 3}, {{5, 6}, 4}, {{7, 8}, 1}});
  ASSERT_THAT(histogram.Add(histogram.tuple(0), 2), IsOk());
  while (histogram.num_distinct() != 0) {
    ASSERT_THAT(histogram.Remove(histogram.tuple(0), histogram.count(0)), IsOk());
  }
  ExpectEquals(histogram, {});
}

TEST(SizeHistogramTest, RemovingMoreThanThereIsNamesTheSize) {
  const Counts counts = {{{1, 2}, 3}};
  SizeHistogram histogram = HistogramOf(2, counts);
  EXPECT_THAT(histogram.Remove({{1, 2}}, 4),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "histogram: cannot remove 4 graphs of size (1, 2), there are 3"));
  EXPECT_THAT(histogram.Remove({{2, 2}}),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "histogram: cannot remove 1 graphs of size (2, 2), there are 0"));
  EXPECT_THAT(histogram.Remove({{2, 2}}, 0), IsOk());
  ExpectEquals(histogram, counts);
}

TEST(SizeHistogramTest, SubtractIsAllOrNothing) {
  const Counts counts = {{{1, 2}, 3}, {{5, 6}, 4}, {{7, 8}, 1}};
  SizeHistogram histogram = HistogramOf(2, counts);
  EXPECT_THAT(histogram.Subtract(HistogramOf(2, {{{1, 2}, 3}, {{5, 6}, 5}})),
              StatusIs(absl::StatusCode::kOutOfRange,
                       "histogram: cannot remove 5 graphs of size (5, 6), there are 4"));
  ExpectEquals(histogram, counts);
}

TEST(SizeHistogramTest, OtherNumbersOfComponentsAreInvalid) {
  const Counts counts = {{{1, 2}, 3}};
  SizeHistogram histogram = HistogramOf(2, counts);
  const auto invalid = [](const char* message) {
    return StatusIs(absl::StatusCode::kInvalidArgument, message);
  };
  EXPECT_THAT(histogram.Add({1}), invalid("histogram: 1 components, expected 2"));
  EXPECT_THAT(histogram.Remove({{1, 2, 3}}), invalid("histogram: 3 components, expected 2"));
  EXPECT_THAT(histogram.Merge(SizeHistogram(3)), invalid("histogram: 3 components, expected 2"));
  EXPECT_THAT(histogram.Subtract(SizeHistogram(0)), invalid("histogram: 0 components, expected 2"));
  EXPECT_THAT(histogram.AddTable(SizeTable::WithConsecutiveIds(2, 1, {1, 2}, 0).value()),
              invalid("histogram: 1 components, expected 2"));
  ExpectEquals(histogram, counts);
}

// At the edge of 64 bits: the last value that fits is accepted, one more is refused as a whole.
TEST(SizeHistogramOverflowTest, NumberOfGraphs) {
  const auto exhausted = [](const char* message) {
    return StatusIs(absl::StatusCode::kResourceExhausted, message);
  };
  SizeHistogram histogram(1);
  ASSERT_THAT(histogram.Add({0}, UINT64_MAX - 1), IsOk());
  ASSERT_THAT(histogram.Add({1}, 1), IsOk());
  const Counts full = {{{0}, UINT64_MAX - 1}, {{1}, 1}};
  EXPECT_THAT(histogram.Add({0}),
              exhausted("histogram: 18446744073709551615 + 1 graphs exceeds 2^64 - 1"));
  EXPECT_THAT(histogram.Add({2}, UINT64_MAX),
              exhausted("histogram: 18446744073709551615 graphs of size (2): their total exceeds "
                        "2^64 - 1"));
  EXPECT_THAT(histogram.AddTable(SizeTable::WithConsecutiveIds(2, 1, {4, 4}, 0).value()),
              exhausted("histogram: 18446744073709551615 + 2 graphs exceeds 2^64 - 1"));
  EXPECT_THAT(histogram.Merge(HistogramOf(1, {{{7}, 3}})),
              exhausted("histogram: 18446744073709551615 + 3 graphs exceeds 2^64 - 1"));
  EXPECT_THAT(histogram.Merge(histogram),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("graphs exceeds 2^64 - 1")));
  ExpectEquals(histogram, full);
}

TEST(SizeHistogramOverflowTest, TotalOfAComponent) {
  constexpr uint32_t kLargest = UINT32_MAX;
  // (2^32 - 1) * (2^32 + 1) = 2^64 - 1.
  constexpr uint64_t kCount = (uint64_t{1} << 32) + 1;
  SizeHistogram histogram(2);
  ASSERT_THAT(histogram.Add({{0, kLargest}}, kCount), IsOk());
  EXPECT_EQ(histogram.total(1), UINT64_MAX);
  const Counts full = {{{0, kLargest}, kCount}};
  ExpectEquals(histogram, full);

  const auto exhausted = [](const char* message) {
    return StatusIs(absl::StatusCode::kResourceExhausted, message);
  };
  EXPECT_THAT(histogram.Add({{3, 1}}),
              exhausted("histogram: total of component 1 18446744073709551615 + 1 exceeds "
                        "2^64 - 1"));
  EXPECT_THAT(histogram.Add({{5, kLargest}}, kCount + 1),
              exhausted("histogram: 4294967298 graphs of size (5, 4294967295): their total "
                        "exceeds 2^64 - 1"));
  EXPECT_THAT(histogram.AddTable(SizeTable::WithConsecutiveIds(2, 2, {1, 0, 1, 9}, 0).value()),
              exhausted("histogram: total of component 1 18446744073709551615 + 9 exceeds "
                        "2^64 - 1"));
  EXPECT_THAT(histogram.Merge(histogram),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("total of component 1")));
  ExpectEquals(histogram, full);
  // What adds nothing to the full total is still welcome.
  EXPECT_THAT(histogram.Add({{3, 0}}, 2), IsOk());
  ExpectEquals(histogram, {{{0, kLargest}, kCount}, {{3, 0}, 2}});
}

}  // namespace
}  // namespace packhouse
