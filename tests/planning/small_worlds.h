// Worlds written out in a test.
#ifndef PACKHOUSE_TESTS_PLANNING_SMALL_WORLDS_H_
#define PACKHOUSE_TESTS_PLANNING_SMALL_WORLDS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/histograms/size_histogram.h"
#include "service/planning/limits.h"
#include "service/planning/packing_problem.h"
#include "service/planning/plan.h"
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

// The patterns as a plan that can be verified.
inline PackingPlan PlanOf(const PackingProblem& problem, std::vector<Pattern> patterns) {
  PackingPlan plan = problem.empty_plan();
  plan.patterns = std::move(patterns);
  return plan;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_SMALL_WORLDS_H_
