// Plans a histogram by several heuristics and keeps the best: the front door of this room.
//
// Where better algorithms come in: add a PlanAlgorithm, its file, and its place in
// DefaultHeuristics().
#ifndef PACKHOUSE_SERVICE_PLANNING_PLANNER_H_
#define PACKHOUSE_SERVICE_PLANNING_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/planning/limits.h"
#include "service/planning/plan.h"
#include "service/planning/priority.h"
#include "service/planning/tuple_packing.h"
#include "service/planning/work_budget.h"
#include "service/sizes/size_histogram.h"
#include "service/sizes/size_schema.h"

namespace packhouse {

enum class PlanAlgorithm {
  kTuplePacking,     // tuple_packing.h
  kNotebook,         // notebook_packing.h
  kNoPacking,        // baselines.h
  kSingleComponent,  // baselines.h, by priority.component
};

struct PlanHeuristic {
  PlanAlgorithm algorithm = PlanAlgorithm::kTuplePacking;
  Priority priority;
  PlacementRule placement = PlacementRule::kBestFit;
  OpeningRule opening = OpeningRule::kOneGraph;

  friend bool operator==(const PlanHeuristic&, const PlanHeuristic&) = default;
};

// "best-fit product", "filling first-fit sum", "notebook sum", "no packing", "nodes alone".
std::string HeuristicName(const PlanHeuristic& heuristic, const SizeSchema& schema);

// Every priority that suits the limits (product, sum, max, min, each component that has a limit,
// and, where capacities differ, sum and max of sizes relative to their capacities), best-fit and
// first-fit, with both opening rules.
std::vector<PlanHeuristic> DefaultHeuristics(const Limits& limits);
// The paper's baselines: no packing, then by each component that has a limit alone.
std::vector<PlanHeuristic> BaselineHeuristics(const Limits& limits);
// The companion notebook's six; none unless every component has a limit.
std::vector<PlanHeuristic> NotebookHeuristics(const Limits& limits);

// What came of one heuristic.
struct PlanOutcome {
  PlanHeuristic heuristic;
  // False if it ran out of its work budget; then nothing below holds.
  bool finished = false;
  bool keeps_limits = false;
  PlanQuality quality;
  uint64_t num_patterns = 0;
};

struct PlanComparison {
  // Fewest packs among those that keep the limits; the earlier heuristic in a tie.
  PackingPlan best_plan;
  size_t best = 0;  // In outcomes.
  std::vector<PlanOutcome> outcomes;
};

// How the caller follows and stops a comparison.
struct PlanProgress {
  // Called after each heuristic's run, by its number, for those who time it.
  std::function<void(size_t)> finished = [](size_t) {};
  // Asked before each run, and now and then within.
  std::function<bool()> given_up = [] { return false; };
};

// Tries all `heuristics`, each with its own budget of `steps`. Every plan that claims to keep the
// limits is verified (VerifyPlan).
//
// Errors: INVALID_ARGUMENT for an empty list, for a list without any that keeps the limits, or as
// the algorithms; OUT_OF_RANGE if a graph alone exceeds the limits; RESOURCE_EXHAUSTED if no
// heuristic finished; CANCELLED if the caller gave up; INTERNAL if a plan fails its
// verification. Thread-safe.
absl::StatusOr<PlanComparison> ComparePlans(const SizeHistogram& histogram, const Limits& limits,
                                            const SizeSchema& schema,
                                            absl::Span<const PlanHeuristic> heuristics,
                                            uint64_t steps = WorkBudget::kDefaultSteps,
                                            const PlanProgress& progress = {});

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_PLANNER_H_
