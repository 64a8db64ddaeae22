// Worlds written out in a test.
#ifndef PACKHOUSE_TESTS_PLANNING_SMALL_WORLDS_H_
#define PACKHOUSE_TESTS_PLANNING_SMALL_WORLDS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "tests/support/status_matchers.h"

namespace packhouse {

// `graphs` last.
inline Limits LimitsOf(std::vector<uint64_t> capacities) {
  return Limits::Create(std::move(capacities)).value();
}

inline SizeHistogram HistogramOf(
    size_t l, const std::vector<std::pair<std::vector<uint32_t>, uint64_t>>& counts) {
  SizeHistogram histogram(l);
  for (const auto& [tuple, count] : counts) EXPECT_THAT(histogram.Add(tuple, count), IsOk());
  return histogram;
}

// Calls visit(histogram) for `chosen` with every multiset of sizes from `tuples[next]` on added to
// it, as long as there are at most `most` graphs.
template <typename Visit>
void ForEachHistogram(const std::vector<std::vector<uint32_t>>& tuples, uint64_t most,
                      const SizeHistogram& chosen, size_t next, Visit visit) {
  if (next == tuples.size()) {
    visit(chosen);
    return;
  }
  SizeHistogram more = chosen;
  ForEachHistogram(tuples, most, more, next + 1, visit);
  while (more.num_graphs() < most) {
    ASSERT_THAT(more.Add(tuples[next]), IsOk());
    ForEachHistogram(tuples, most, more, next + 1, visit);
  }
}

// Calls visit(histogram) for every multiset of at most `most` graphs with sizes from `tuples`, of
// which there is at least one.
template <typename Visit>
void ForEachHistogram(const std::vector<std::vector<uint32_t>>& tuples, uint64_t most,
                      Visit visit) {
  ForEachHistogram(tuples, most, SizeHistogram(tuples[0].size()), 0, visit);
}

// The patterns as a plan that can be verified.
inline PackingPlan PlanOf(const PackingProblem& problem, std::vector<Pattern> patterns) {
  PackingPlan plan = problem.empty_plan();
  plan.patterns = std::move(patterns);
  return plan;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_SMALL_WORLDS_H_
