// Plans a histogram, by one algorithm or by several side by side, and keeps the best: the front
// door of this room.
//
// Who wants a plan asks for DefaultHeuristics(): the strong planner (plan_optimizer.h) alone. The
// other algorithms are there to be compared with it. Where another one comes in: add a
// PlanAlgorithm, its file, and its place in one of the lists below.
#ifndef PACKHOUSE_SERVICE_PLANNING_BASELINES_PLANNER_H_
#define PACKHOUSE_SERVICE_PLANNING_BASELINES_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/histograms/size_histogram.h"
#include "service/planning/baselines/priority.h"
#include "service/planning/baselines/tuple_packing.h"
#include "service/planning/limits.h"
#include "service/planning/lower_bound.h"
#include "service/planning/optimizer/plan_optimizer.h"
#include "service/planning/plan.h"
#include "service/planning/work_budget.h"
#include "service/sizes/size_schema.h"

namespace packhouse {

enum class PlanAlgorithm {
  kTuplePacking,     // tuple_packing.h
  kNotebook,         // notebook_packing.h
  kNoPacking,        // baselines.h
  kSingleComponent,  // baselines.h, by priority.component
  kOptimized,        // plan_optimizer.h
  // plan_optimizer.h without any steps of its own, which is first-fit decreasing.
  kFirstFitDecreasing,
};

// The three last members are for kTuplePacking; kNotebook and kSingleComponent have a priority.
struct PlanHeuristic {
  PlanAlgorithm algorithm = PlanAlgorithm::kTuplePacking;
  Priority priority;
  PlacementRule placement = PlacementRule::kBestFit;
  OpeningRule opening = OpeningRule::kOneGraph;

  friend bool operator==(const PlanHeuristic&, const PlanHeuristic&) = default;
};

// "optimized", "first-fit decreasing", "best-fit product", "filling first-fit sum", "notebook sum",
// "no packing", "nodes alone".
std::string HeuristicName(const PlanHeuristic& heuristic, const SizeSchema& schema);

// kOptimized alone.
std::vector<PlanHeuristic> DefaultHeuristics();
// The paper's tuple packing: every priority that suits the limits (product, sum, max, min, each
// component that has a limit, and, where capacities differ, sum and max of sizes relative to their
// capacities), best-fit and first-fit, with both opening rules.
std::vector<PlanHeuristic> TuplePackingHeuristics(const Limits& limits);
// The paper's baselines: no packing, then by each component that has a limit alone.
std::vector<PlanHeuristic> BaselineHeuristics(const Limits& limits);
// The companion notebook's six; none unless every component has a limit.
std::vector<PlanHeuristic> NotebookHeuristics(const Limits& limits);

// What came of one heuristic, with its certificate.
struct PlanOutcome {
  PlanHeuristic heuristic;
  // False if it ran out of its work budget; then nothing below holds.
  bool finished = false;
  bool keeps_limits = false;
  // Its lower bound and gap are those of `bound`.
  PlanQuality quality;
  uint64_t num_patterns = 0;
  // The best bound that any heuristic of the comparison found: the same for all of them. It holds
  // for plans that keep the limits; one that ignores some may have fewer packs.
  LowerBound bound;
  // Keeps the limits and has quality.packs == bound.packs: no such plan has fewer.
  bool optimal = false;
  // Of kOptimized alone: whose plan it is, the steps used, and PlanReceipt().
  std::optional<PlanMethod> winner;
  uint64_t steps = 0;
  std::string receipt;
};

struct PlanComparison {
  // Fewest packs among those that keep the limits; the earlier heuristic in a tie.
  PackingPlan best_plan;
  size_t best = 0;  // In outcomes.
  std::vector<PlanOutcome> outcomes;
};

// How much work a comparison may do, and how the caller follows and stops it.
struct ComparisonOptions {
  // For each heuristic but kOptimized and kFirstFitDecreasing; not shared, so that what one finds
  // does not depend on the others. Whatever the histogram, a comparison ends after
  // (number of heuristics) * heuristic_steps + optimizer.steps and a pass of first-fit decreasing
  // for each of the two.
  uint64_t heuristic_steps = WorkBudget::kDefaultSteps;
  // For kOptimized: steps, seed, warm start. `given_up` is for all: asked before each run, and now
  // and then within.
  OptimizerOptions optimizer;
  // Called after each heuristic's run, by its number, for those who time it; may be empty.
  std::function<void(size_t)> finished;
};

// Tries all `heuristics`. Every plan that claims to keep the limits is verified (VerifyPlan). Same
// arguments, same result.
//
// Errors: INVALID_ARGUMENT for an empty list, for a list without any that keeps the limits, or as
// the algorithms; OUT_OF_RANGE if a graph alone exceeds the limits; RESOURCE_EXHAUSTED if no
// heuristic finished, which cannot be where kOptimized or kFirstFitDecreasing is among them;
// CANCELLED if the caller gave up; INTERNAL if a plan fails its verification. Thread-safe.
absl::StatusOr<PlanComparison> ComparePlans(const SizeHistogram& histogram, const Limits& limits,
                                            const SizeSchema& schema,
                                            absl::Span<const PlanHeuristic> heuristics,
                                            const ComparisonOptions& options = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_BASELINES_PLANNER_H_
