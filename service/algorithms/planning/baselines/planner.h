// Plans a histogram by one algorithm or by several, and keeps the best plan: the front door of this
// room.
//
// To get a plan, use DefaultHeuristics(): the strong planner (plan_optimizer.h) alone. The other
// algorithms are for comparison. To add one, add a PlanAlgorithm, its file, and its place in one of
// the lists below.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_PLANNER_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/baselines/priority.h"
#include "service/algorithms/planning/baselines/tuple_packing.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

enum class PlanAlgorithm {
  kTuplePacking,     // tuple_packing.h
  kNotebook,         // notebook_packing.h
  kNoPacking,        // baselines.h
  kSingleComponent,  // baselines.h, by priority.component
  kOptimized,        // plan_optimizer.h
  // plan_optimizer.h with no steps, which gives first-fit decreasing.
  kFirstFitDecreasing,
};

// The last three members are for kTuplePacking. kNotebook and kSingleComponent use the priority
// only.
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
// The paper's baselines: no packing, then packing by each single component that has a limit.
std::vector<PlanHeuristic> BaselineHeuristics(const Limits& limits);
// The companion notebook's six; none unless every component has a limit.
std::vector<PlanHeuristic> NotebookHeuristics(const Limits& limits);

// The result of one heuristic, with its certificate.
struct PlanOutcome {
  PlanHeuristic heuristic;
  // False if the heuristic ran out of its work budget; then the fields below are not valid.
  bool finished = false;
  bool keeps_limits = false;
  // Its lower bound and gap are those of `bound`.
  PlanQuality quality;
  uint64_t num_patterns = 0;
  // The best bound that any heuristic of the comparison found; the same for all. It holds for plans
  // that keep the limits; a plan that ignores limits may have fewer packs.
  LowerBound bound;
  // The plan keeps the limits and has quality.packs == bound.packs: no plan that keeps them has
  // fewer.
  bool optimal = false;
  // kOptimized only: the planner that won, the steps used, and PlanReceipt().
  std::optional<PlanMethod> winner;
  uint64_t steps = 0;
  std::string receipt;
};

struct PlanComparison {
  // The plan with the fewest packs among those that keep the limits; in a tie, the earlier
  // heuristic's.
  PackingPlan best_plan;
  size_t best = 0;  // In outcomes.
  std::vector<PlanOutcome> outcomes;
};

// How much work a comparison may do, and how the caller follows and stops it.
struct ComparisonOptions {
  // Steps for each heuristic except kOptimized and kFirstFitDecreasing. They are not shared, so
  // that the result of one heuristic does not depend on the others. For any histogram, a comparison
  // ends after (number of heuristics) * heuristic_steps + optimizer.steps, and a pass of first-fit
  // decreasing for each of these two.
  uint64_t heuristic_steps = WorkBudget::kDefaultSteps;
  // For kOptimized: steps, seed, warm start. `is_cancelled` is for all heuristics: it is asked
  // before each run, and now and then during it.
  OptimizerOptions optimizer;
  // Called after each heuristic's run with its number, for example to time it; may be empty.
  std::function<void(size_t)> finished;
};

// Tries all `heuristics`. Every plan that claims to keep the limits is verified (VerifyPlan). Same
// arguments, same result.
//
// Errors: INVALID_ARGUMENT for an empty list, for a list without a heuristic that keeps the limits,
// or as the algorithms; OUT_OF_RANGE if a graph alone exceeds the limits; RESOURCE_EXHAUSTED if no
// heuristic finished (kOptimized and kFirstFitDecreasing always finish); CANCELLED if the caller
// gave up; INTERNAL if a plan fails its verification. Thread-safe.
absl::StatusOr<PlanComparison> ComparePlans(const SizeHistogram& histogram, const Limits& limits,
                                            const SizeSchema& schema,
                                            absl::Span<const PlanHeuristic> heuristics,
                                            const ComparisonOptions& options = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_BASELINES_PLANNER_H_
