// Chooses limits: which capacities, among those a device profile allows, make an epoch cheapest.
//
// Parameters: a histogram, a device profile, an objective, a work budget. Flow: graphs too large
// for every candidate are left out; candidates come one after the other by ascending bound, for a
// plan cannot have fewer packs than the volume bound says (candidate_grid.h, candidate_queue.h);
// each is planned, until the next bound is not better than the best plan. So the answer is exact
// for the planner used (plan_optimizer.h, with the steps for each plan) unless the budget ends
// first. Then a few smaller shapes are planned for the frontier, and, if the client takes several
// shapes, sets of shapes are tried (shape_sets.h).
#ifndef PACKHOUSE_SERVICE_PLANNING_TUNING_LIMIT_TUNER_H_
#define PACKHOUSE_SERVICE_PLANNING_TUNING_LIMIT_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/base/vector_level.h"
#include "service/histograms/size_histogram.h"
#include "service/planning/device_profile.h"
#include "service/planning/oversize_graphs.h"
#include "service/planning/plan.h"
#include "service/planning/plan_memory.h"
#include "service/sizes/size_schema.h"

namespace packhouse {

enum class TuneObjective {
  // Least packs * CostOfShape, summed over the shapes.
  kEpochCost,
  // Highest harmonic mean of the efficiencies of the components that have a cost and any rows
  // (Krell et al. 2022, Figure 5). For one shape.
  kHarmonicMean,
};

// Limits, and what the plan under them is like.
struct TunedShape {
  // l + 1 entries, `graphs` last; kUnlimited where the profile has no limit. As they are laid out:
  // with what padding keeps free (ComponentProfile::reserved_rows).
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

// One of the candidates that take every graph within the memory, for those who asked for all.
struct TuneCell {
  std::vector<uint64_t> capacities;
  // Of the plan; else bounds, a plan cannot be better.
  double harmonic_mean = 0;
  double epoch_cost = 0;
  bool planned = false;
};

// How far the search is. Counts never fall.
struct TuneProgress {
  // Choices of capacities for the components that have a cost; UINT64_MAX if there are more.
  uint64_t candidates = 0;
  uint64_t planned = 0;
  // Without a plan: too small for some graph, no better than a smaller one, or, counted at the end,
  // by their bounds.
  uint64_t excluded = 0;
  // The best so far; null before the first.
  const TunedShape* incumbent = nullptr;
};

struct TuneOptions {
  // About two seconds on one core of 2020.
  static constexpr uint64_t kDefaultSteps = 2'000'000'000;

  TuneObjective objective = TuneObjective::kEpochCost;
  // For everything together.
  uint64_t steps = kDefaultSteps;
  uint64_t seed = 0;
  // Also list every candidate (TuneResult::cells), at most kMaxGridCells. What the search left
  // unplanned gets a plan of few steps; if the budget does not suffice for all, every n-th does.
  bool include_grid = false;
  // Called now and then, and when there is a better incumbent; may be empty.
  std::function<void(const TuneProgress&)> progress;
  // Asked now and then; may be empty.
  std::function<bool()> given_up;
  // What is asked for all that grows on the way; null: there is room for all.
  PlanMemory* memory = nullptr;
  VectorLevel vector_level = BestVectorLevel();
  // For each plan, of which each candidate gets one. 0: few at first, some thousand a distinct
  // size; again from the start with more, up to OptimizerOptions::kDefaultSteps, if the plans are
  // too far from their bounds for the search to end soon; and other seeds for the last few that
  // came close.
  uint64_t steps_per_plan = 0;
};

struct TuneResult {
  // The largest first: no later one has more rows in any component. Each pack uses the smallest
  // shape that takes it.
  std::vector<TunedShape> shapes;
  // What one shape alone would cost; equals shapes[0] if there is one shape.
  TunedShape single_shape;
  double epoch_cost = 0;
  // Of real rows: no limits can cost less.
  double least_cost = 0;
  double harmonic_mean = 0;
  // No other candidate is better for the planner used. False if the profile allows several shapes.
  bool exact = false;
  // Sentences for people.
  std::vector<std::string> reasons;
  std::optional<OversizeGraphs> oversize;
  // Single shapes by ascending CostOfShape, a sample of about kMaxFrontier: each is better by the
  // objective than all before it, the last is single_shape.
  std::vector<TunedShape> frontier;
  // By ascending capacities, the last component fastest.
  std::vector<TuneCell> cells;
};

// Most candidates of a grid that is listed.
inline constexpr uint64_t kMaxGridCells = uint64_t{1} << 20;
inline constexpr size_t kMaxFrontier = 16;

// At most what the tuner takes for a histogram of so many distinct sizes, whatever its profile, but
// for patterns, and what grows with the number of plans and with a grid that is listed.
uint64_t TunerBytes(uint64_t num_distinct, size_t num_components);

// Errors: INVALID_ARGUMENT as CheckDeviceProfile, for a histogram of another number of components,
// or for several shapes with kHarmonicMean; FAILED_PRECONDITION if no candidate takes any graph of
// the histogram; RESOURCE_EXHAUSTED for a grid of more than kMaxGridCells; CANCELLED if the caller
// gave up, or `memory` refused. Memory: TunerBytes(), and what `memory` is asked for. Same
// arguments, same result. Thread-safe.
absl::StatusOr<TuneResult> TuneLimits(const SizeHistogram& histogram, const DeviceProfile& profile,
                                      const SizeSchema& schema, const TuneOptions& options);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_TUNING_LIMIT_TUNER_H_
