// Histograms with limits that suit them, drawn from a seed.
#ifndef PACKHOUSE_TESTS_PLANNING_RANDOM_WORLDS_H_
#define PACKHOUSE_TESTS_PLANNING_RANDOM_WORLDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/baselines/priority.h"
#include "service/algorithms/planning/limits.h"
#include "tests/support/random.h"

namespace packhouse {

// Every graph of the histogram fits the limits.
struct PlanningWorld {
  SizeHistogram histogram;
  Limits limits;
};

struct PlanningWorldShape {
  size_t max_components = 6;
  uint64_t max_distinct = 40;
  uint64_t max_count = 50;
  uint64_t max_capacity = 60;
};

// 1 to max_components components; some without a limit, some sizes zero, some as large as the
// capacity; any number of graphs a pack, or 1 and more.
inline PlanningWorld RandomPlanningWorld(Random& random, const PlanningWorldShape& shape = {}) {
  const size_t l = random.Between(1, shape.max_components);
  std::vector<uint64_t> capacities;
  for (size_t k = 0; k < l; ++k) {
    capacities.push_back(random.Below(6) == 0 ? kUnlimited : random.Between(1, shape.max_capacity));
  }
  const bool all_unlimited = std::count(capacities.begin(), capacities.end(), kUnlimited) ==
                             static_cast<std::ptrdiff_t>(capacities.size());
  capacities.push_back(!all_unlimited && random.Below(2) == 0 ? kUnlimited : random.Between(1, 12));
  const uint64_t typical_share = random.Between(1, 6);
  SizeHistogram histogram(l);
  for (uint64_t i = random.Below(shape.max_distinct + 1); i != 0; --i) {
    const uint64_t kind = random.Below(24);
    std::vector<uint32_t> tuple;
    for (size_t k = 0; k < l; ++k) {
      const uint64_t bound = std::min(capacities[k], shape.max_capacity);
      uint64_t size = random.Between(0, std::max<uint64_t>(bound / typical_share, 1));
      if (kind == 0 || random.Below(8) == 0) size = 0;
      if (kind == 1) size = bound;
      tuple.push_back(static_cast<uint32_t>(std::min(size, bound)));
    }
    // The bounds above keep all sums far from 64 bits.
    histogram.Add(tuple, random.Between(1, shape.max_count)).IgnoreError();
  }
  return {std::move(histogram), Limits::Create(std::move(capacities)).value()};
}

// One that suits the limits, with or without weights.
inline Priority RandomPriority(Random& random, const Limits& limits) {
  Priority priority;
  priority.kind = static_cast<PriorityKind>(random.Below(5));
  if (priority.kind == PriorityKind::kComponent) {
    priority.component = random.Below(limits.num_components());
    if (!limits.has_limit(priority.component)) priority = {PriorityKind::kSum, 0, {}};
  }
  if (priority.kind != PriorityKind::kComponent && random.Below(3) == 0) {
    for (size_t k = 0; k < limits.num_components(); ++k) {
      priority.weights.push_back(static_cast<uint32_t>(random.Below(3)));
    }
  }
  return priority;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_PLANNING_RANDOM_WORLDS_H_
