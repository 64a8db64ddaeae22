// Chooses limits: the capacities, among those that a device profile allows, with the least cost of
// an epoch.
//
// Parameters: a histogram, a device profile, an objective, a work budget. Flow: graphs that fit no
// candidate are left out. Candidates come by ascending bound, since no plan has fewer packs than
// the volume bound (candidate_grid.h, candidate_queue.h). Each is planned, until the next bound is
// not better than the best plan. The answer is therefore exact for the planner used
// (plan_optimizer.h, with the steps for each plan), unless the budget ends first. Then a few
// smaller shapes are planned for the frontier. If the client takes several shapes, sets of shapes
// are tried too (shape_sets.h). If no one shape within the memory takes all graphs that fit alone,
// these are put into groups (size_groups.h); each group is tuned by itself, and all are planned
// together.
//
// Many shapes may cost nearly the same, as where sizes vary little. A step costs a device something
// that no profile states exactly, whatever the step's batch holds, so of these the one with the
// fewest packs is recommended (TuneOptions::equal_cost).
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_LIMIT_TUNER_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_LIMIT_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/algorithms/planning/oversize_graphs.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/plan_memory.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/vector_level.h"

namespace packhouse {

enum class TuneObjective {
  // The least sum over the shapes of packs * CostOfShape.
  kEpochCost,
  // The highest harmonic mean of the efficiencies of the components that have a cost and any rows
  // (Krell et al. 2022, Figure 5). For one shape.
  kHarmonicMean,
};

// Limits, and the figures of the plan under them.
struct TunedShape {
  // l + 1 entries, `graphs` last; kUnlimited where the profile has no limit. They include the rows
  // that padding keeps free (ComponentProfile::reserved_rows).
  std::vector<uint64_t> capacities;
  uint64_t packs = 0;
  // No plan has fewer packs.
  uint64_t lower_bound = 0;
  // packs * CostOfShape.
  double epoch_cost = 0;
  // 1 if no component has a cost and rows.
  double harmonic_mean = 0;
  std::vector<ComponentEfficiency> components;
  uint64_t batch_bytes = 0;
};

// One candidate of the grid, for callers that asked for it. It takes every graph, within the
// memory.
struct TuneCell {
  std::vector<uint64_t> capacities;
  // That of the plan; else a bound, which no plan can beat.
  double harmonic_mean = 0;
  double epoch_cost = 0;
  bool planned = false;
};

// Progress of the search. Counts never fall.
struct TuneProgress {
  // Choices of capacities for the components that have a cost; UINT64_MAX if there are more.
  uint64_t candidates = 0;
  uint64_t planned = 0;
  // Excluded without a plan: too small for some graph, no better than a smaller one, or (counted at
  // the end) by their bounds.
  uint64_t excluded = 0;
  // The best so far; null before the first.
  const TunedShape* incumbent = nullptr;
};

struct TuneOptions {
  // About two seconds on one core of 2020.
  static constexpr uint64_t kDefaultSteps = 2'000'000'000;

  TuneObjective objective = TuneObjective::kEpochCost;
  // For all work together.
  uint64_t steps = kDefaultSteps;
  uint64_t seed = 0;
  // Also list every candidate (TuneResult::cells), at most kMaxGridCells. Candidates that the
  // search did not plan get a plan of few steps; if the budget does not suffice for all, every n-th
  // one gets one.
  bool include_grid = false;
  // Called now and then, and when there is a better incumbent; may be empty.
  std::function<void(const TuneProgress&)> progress;
  // Asked now and then; may be empty.
  std::function<bool()> is_cancelled;
  // Reserves memory for everything that grows during the search; null: there is room for all.
  PlanMemory* memory = nullptr;
  VectorLevel vector_level = BestVectorLevel();
  // Steps for each plan; each candidate gets one plan. 0: at first few, some thousand for each
  // distinct size. If these plans are too far from their bounds for the search to end soon, it
  // starts again with more steps, up to OptimizerOptions::kDefaultSteps. Other seeds are then tried
  // for the last few candidates that came close.
  uint64_t steps_per_plan = 0;
  // With kEpochCost, unless the profile has measured_as: single shapes that cost at most this share
  // more than the cheapest count as equal to it. Of these, one with the fewest packs is
  // recommended. 0: the cheapest itself.
  double equal_cost = kEqualCost;
  static constexpr double kEqualCost = 0.005;
};

struct TuneResult {
  // By descending cost: none takes all that an earlier one takes. If one shape takes all graphs,
  // the first does. Each pack uses the last shape that takes it.
  std::vector<TunedShape> shapes;
  // The recommended single shape; equals shapes[0] if there is one shape. With several groups of
  // sizes: that of the first group, as cheapest_shape, frontier and cells are.
  TunedShape single_shape;
  // The best by the objective, and of such the cheapest for one batch. It equals single_shape, or
  // that has fewer packs and costs hardly more (TuneOptions::equal_cost).
  TunedShape cheapest_shape;
  double epoch_cost = 0;
  // The cost of the real rows: no limits can cost less.
  double least_cost = 0;
  double harmonic_mean = 0;
  // No candidate is better than cheapest_shape for the planner used. False if the profile allows
  // several shapes.
  bool exact = false;
  // Sentences for people.
  std::vector<std::string> reasons;
  std::optional<OversizeGraphs> oversize;
  // The number of graphs of each group of sizes; one number if one shape takes all.
  std::vector<uint64_t> group_graphs;
  // A sample of about kMaxFrontier single shapes by ascending CostOfShape. Each is better by the
  // objective than all before it; the last is cheapest_shape.
  std::vector<TunedShape> frontier;
  // By ascending capacities, the last component fastest.
  std::vector<TuneCell> cells;
};

// The most candidates of a grid that is listed.
inline constexpr uint64_t kMaxGridCells = uint64_t{1} << 20;
inline constexpr size_t kMaxFrontier = 16;

// At most the bytes that the tuner takes for a histogram of this many distinct sizes, for any
// profile. Without patterns, and without what grows with the number of plans or with a listed grid.
uint64_t TunerBytes(uint64_t num_distinct, size_t num_components);

// Errors: INVALID_ARGUMENT as CheckDeviceProfile, for a histogram of another number of components,
// or for several shapes with kHarmonicMean; FAILED_PRECONDITION if no candidate takes any graph of
// the histogram; RESOURCE_EXHAUSTED for a grid of more than kMaxGridCells; CANCELLED if the caller
// gave up, or `memory` refused. Memory: TunerBytes(), and what is reserved from `memory`. Same
// arguments, same result. Thread-safe.
absl::StatusOr<TuneResult> TuneLimits(const SizeHistogram& histogram, const DeviceProfile& profile,
                                      const SizeSchema& schema, const TuneOptions& options);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_TUNING_LIMIT_TUNER_H_
