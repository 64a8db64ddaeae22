#include "service/algorithms/planning/packing_problem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/planning/random_worlds.h"
#include "tests/planning/small_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<size_t> OriginalsOf(const PackingProblem& problem) {
  std::vector<size_t> originals;
  for (size_t k = 0; k < problem.num_components(); ++k) originals.push_back(problem.original(k));
  return originals;
}

// Whether a pack with copies[i] graphs of item i keeps the limits, by the limits themselves.
bool FitsLimits(const PackingProblem& problem, const Limits& limits,
                const std::vector<uint64_t>& copies) {
  const size_t l = limits.num_components();
  std::vector<uint64_t> rows(l + 1, 0);
  for (size_t i = 0; i < copies.size(); ++i) {
    for (size_t k = 0; k < l; ++k) rows[k] += copies[i] * problem.empty_plan().tuple(i)[k];
    rows[l] += copies[i];
  }
  for (size_t k = 0; k <= l; ++k) {
    if (rows[k] > limits.capacity(k)) return false;
  }
  return true;
}

// The same by what the problem kept.
bool FitsProblem(const PackingProblem& problem, const std::vector<uint64_t>& copies) {
  for (size_t k = 0; k < problem.num_components(); ++k) {
    uint64_t rows = 0;
    for (size_t i = 0; i < copies.size(); ++i) rows += copies[i] * problem.sizes(i)[k];
    if (rows > problem.capacity(k)) return false;
  }
  return true;
}

// Fills packs graph by graph until well beyond their limits and compares at each step. Counts how
// often each verdict was met.
void CompareWhileFilling(Random& random, const PackingProblem& problem, const Limits& limits,
                         uint64_t& fitting, uint64_t& too_full) {
  for (int filling = 0; filling < 8; ++filling) {
    std::vector<uint64_t> copies(problem.num_items(), 0);
    for (int beyond = 0, step = 0; beyond < 3 && step < 200; ++step) {
      const size_t i = random.Below(problem.num_items());
      // Only graphs that there are.
      if (copies[i] == problem.count(i)) continue;
      copies[i] += random.Below(4) == 0 ? random.Between(1, problem.count(i) - copies[i]) : 1;
      const bool fits = FitsLimits(problem, limits, copies);
      ASSERT_EQ(FitsProblem(problem, copies), fits);
      (fits ? fitting : too_full) += 1;
      beyond += !fits;
    }
  }
}

TEST(PackingProblemTest, ASetOfGraphsFitsExactlyIfItFitsTheLimits) {
  uint64_t fitting = 0;
  uint64_t too_full = 0;
  int reduced = 0;
  int without_graphs = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    auto [histogram, limits] = RandomPlanningWorld(random, {.max_distinct = 12, .max_count = 20});
    if (histogram.num_graphs() == 0) continue;
    // Sizes with a common divisor, capacities without.
    const auto factor = static_cast<uint32_t>(random.Between(1, 5));
    SizeHistogram multiples(histogram.num_components());
    for (size_t row = 0; row < histogram.num_distinct(); ++row) {
      std::vector<uint32_t> tuple(histogram.tuple(row).begin(), histogram.tuple(row).end());
      for (uint32_t& size : tuple) size *= factor;
      ASSERT_THAT(multiples.Add(tuple, histogram.count(row)), IsOk());
    }
    std::vector<uint64_t> capacities(limits.capacities().begin(), limits.capacities().end());
    for (size_t k = 0; k + 1 < capacities.size(); ++k) {
      if (limits.has_limit(k)) capacities[k] = capacities[k] * factor + random.Below(factor);
    }
    const Limits wider = LimitsOf(std::move(capacities));
    const PackingProblem problem(multiples, wider);
    CompareWhileFilling(random, problem, wider, fitting, too_full);
    if (HasFailure()) return;
    reduced += problem.num_components() <= histogram.num_components();
    without_graphs += wider.has_limit(wider.num_components()) &&
                      histogram.num_graphs() > wider.graphs() &&
                      (problem.num_components() == 0 ||
                       OriginalsOf(problem).back() != histogram.num_components());
  }
  // That all of it was tested.
  EXPECT_GT(fitting, 10000);
  EXPECT_GT(too_full, 10000);
  EXPECT_GT(reduced, 1000);
  EXPECT_GT(without_graphs, 30);
}

TEST(PackingProblemTest, ComponentsThatNoPackCanExceedAreLeftOut) {
  const SizeHistogram histogram = HistogramOf(3, {{{4, 1, 7}, 10}, {{6, 0, 5}, 10}});
  // Totals 100, 10, 120.
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({99, 9, 119, 19}))),
              ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({100, 9, 119, 19}))),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({99, 10, kUnlimited, 19}))),
              ElementsAre(0, 3));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({99, 9, 119, kUnlimited}))),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({100, 10, 120, 20}))), IsEmpty());
}

// 4 rows a graph at least, so that 40 rows are 10 graphs at most.
TEST(PackingProblemTest, GraphsAreLeftOutIfAnotherComponentIsAlwaysFullBefore) {
  const SizeHistogram histogram = HistogramOf(2, {{{4, 0}, 10}, {{6, 1}, 10}});
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({43, kUnlimited, 10}))),
              ElementsAre(0));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({44, kUnlimited, 10}))),
              ElementsAre(0, 2));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({43, kUnlimited, 9}))),
              ElementsAre(0, 2));
  // Graphs of no row of that component fit without end.
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({kUnlimited, 1, 10}))),
              ElementsAre(1, 2));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({kUnlimited, kUnlimited, 10}))),
              ElementsAre(2));
  EXPECT_THAT(OriginalsOf(PackingProblem(histogram, LimitsOf({kUnlimited, kUnlimited, 20}))),
              IsEmpty());
}

TEST(PackingProblemTest, SizesAreInUnitsOfTheirCommonDivisor) {
  const SizeHistogram histogram = HistogramOf(2, {{{6, 5}, 3}, {{9, 0}, 2}, {{0, 15}, 1}});
  const PackingProblem problem(histogram, LimitsOf({11, 29, kUnlimited}));
  ASSERT_EQ(problem.num_items(), 3);
  ASSERT_EQ(problem.num_components(), 2);
  EXPECT_THAT(problem.capacities(), ElementsAre(3, 5));
  // Items are numbered as a plan's tuples, ascending.
  EXPECT_THAT(problem.empty_plan().tuples, ElementsAre(0, 15, 6, 5, 9, 0));
  EXPECT_THAT(problem.sizes(0), ElementsAre(0, 3));
  EXPECT_THAT(problem.sizes(1), ElementsAre(2, 1));
  EXPECT_THAT(problem.sizes(2), ElementsAre(3, 0));
  EXPECT_THAT(problem.counts(), ElementsAre(1, 3, 2));
  EXPECT_EQ(problem.total(0), 12);
  EXPECT_EQ(problem.total(1), 6);
  EXPECT_EQ(problem.num_graphs(), 6);
  EXPECT_EQ(problem.MostCopies(0), 1);
  EXPECT_EQ(problem.MostCopies(1), 1);
  EXPECT_EQ(problem.MostCopies(2), 1);
  EXPECT_EQ(problem.LargestShare(0), 0.6);
  EXPECT_EQ(problem.LargestShare(1), 2.0 / 3.0);
  EXPECT_EQ(problem.LargestShare(2), 1.0);
}

TEST(PackingProblemTest, OtherCounts) {
  const SizeHistogram histogram = HistogramOf(1, {{{2}, 30}, {{3}, 20}});
  const PackingProblem problem(histogram, LimitsOf({10, 4}));
  const PackingProblem rest(problem, {0, 2});
  EXPECT_THAT(rest.counts(), ElementsAre(0, 2));
  // What is left out was decided by the histogram.
  EXPECT_THAT(rest.capacities(), ElementsAre(10, 4));
  EXPECT_EQ(rest.total(0), 6);
  EXPECT_EQ(rest.total(1), 2);
  EXPECT_EQ(rest.num_graphs(), 2);
  EXPECT_THAT(rest.sizes(1), ElementsAre(3, 1));
  EXPECT_EQ(rest.empty_plan().tuples, problem.empty_plan().tuples);
  EXPECT_THAT(problem.counts(), ElementsAre(30, 20)) << "the other one is untouched";
}

TEST(PackingProblemTest, CapacitiesAndTotalsBeyond32Bits) {
  constexpr uint64_t kMany = uint64_t{1} << 40;
  const SizeHistogram histogram = HistogramOf(2, {{{1, UINT32_MAX}, kMany >> 10}, {{1, 0}, kMany}});
  const uint64_t nodes = (uint64_t{1} << 39) + 1;
  const uint64_t edges = (uint64_t{1} << 61) + 1;
  const PackingProblem problem(histogram, LimitsOf({nodes, edges, kUnlimited}));
  ASSERT_THAT(OriginalsOf(problem), ElementsAre(0, 1));
  // All edge counts are multiples of 2^32 - 1.
  EXPECT_THAT(problem.capacities(), ElementsAre(nodes, edges / UINT32_MAX));
  EXPECT_THAT(problem.sizes(1), ElementsAre(1, 1));
  EXPECT_EQ(problem.total(0), kMany + (kMany >> 10));
  EXPECT_EQ(problem.total(1), kMany >> 10);
  EXPECT_EQ(problem.MostCopies(0), UINT32_MAX) << "clipped";
  EXPECT_EQ(problem.MostCopies(1), edges / UINT32_MAX);
}

TEST(PackingProblemTest, MostCopiesAreWhatFitsAlone) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const auto [histogram, limits] = RandomPlanningWorld(random);
    const PackingProblem problem(histogram, limits);
    for (size_t i = 0; i < problem.num_items(); ++i) {
      std::vector<uint64_t> copies(problem.num_items(), 0);
      const uint32_t most = problem.MostCopies(i);
      double share = 0;
      for (size_t k = 0; k < problem.num_components(); ++k) {
        share = std::max(share, static_cast<double>(problem.sizes(i)[k]) /
                                    static_cast<double>(problem.capacity(k)));
      }
      EXPECT_EQ(problem.LargestShare(i), share);
      EXPECT_LE(share, 1);
      copies[i] = most;
      EXPECT_TRUE(FitsProblem(problem, copies));
      if (most == UINT32_MAX) {
        EXPECT_EQ(share, 0);
        continue;
      }
      EXPECT_GE(most, 1);
      ++copies[i];
      EXPECT_FALSE(FitsProblem(problem, copies));
    }
    if (HasFailure()) return;
  }
}

TEST(PackingProblemTest, EdgeCases) {
  const PackingProblem empty(SizeHistogram(2), LimitsOf({10, 10, 5}));
  EXPECT_EQ(empty.num_items(), 0);
  EXPECT_EQ(empty.num_components(), 0);
  EXPECT_EQ(empty.num_graphs(), 0);
  const PackingProblem no_sizes(HistogramOf(0, {{{}, 9}}), LimitsOf({4}));
  EXPECT_EQ(no_sizes.num_items(), 1);
  EXPECT_THAT(OriginalsOf(no_sizes), ElementsAre(0));
  EXPECT_THAT(no_sizes.sizes(0), ElementsAre(1));
  EXPECT_EQ(no_sizes.MostCopies(0), 4);
  // Graphs without rows never fill a component.
  const PackingProblem zeros(HistogramOf(1, {{{0}, 9}}), LimitsOf({4, kUnlimited}));
  EXPECT_EQ(zeros.num_components(), 0);
  EXPECT_EQ(zeros.MostCopies(0), UINT32_MAX);
  EXPECT_EQ(zeros.LargestShare(0), 0);
}

}  // namespace
}  // namespace packhouse
