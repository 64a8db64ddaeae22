// Tuple packing: the paper's algorithm, for any number of components.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_TUPLE_PACKING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_TUPLE_PACKING_H_

#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/baselines/priority.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"

namespace packhouse {

enum class PlacementRule {
  // Into the pack with the least priority left that has room (longest-pack-first).
  kBestFit,
  // Into the pack with the most priority left that has room (shortest-pack-first).
  kFirstFit,
};

// What is opened for graphs that fit no open pack.
enum class OpeningRule {
  // One pack for each graph: the paper's rule. Graphs of one size then share no new pack.
  kOneGraph,
  // Packs with as many of these graphs as fit, as if they were placed one after the other.
  kFill,
};

// Packs a histogram greedily: takes the sizes in descending priority, and adds all graphs of a size
// to open patterns that have room. A pattern is split if only some of its packs get a graph. Graphs
// without room open new packs (Krell et al. 2022, Listing 2, without its misprints; the notebook's
// quirks are in notebook_packing.h).
//
// Every graph is in exactly one pack and no pack exceeds `limits`. The result depends on the
// arguments alone: ties go to the lexicographically larger tuple and to the pattern opened first.
//
// Errors: INVALID_ARGUMENT for a priority that does not suit the limits; RESOURCE_EXHAUSTED when
// `budget` is used up. Requires that each graph fits by itself (CheckEachGraphFits).
// Cost: O(d * p) steps for d distinct tuples and p open patterns, O(d + p) memory; thread-safe.
absl::StatusOr<PackingPlan> PlanByTuplePacking(const SizeHistogram& histogram, const Limits& limits,
                                               const Priority& priority, PlacementRule placement,
                                               WorkBudget& budget,
                                               OpeningRule opening = OpeningRule::kOneGraph);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_TUPLE_PACKING_H_
