// Plans for ranks of unequal hardware: each round gives each rank a batch within its own limits.
//
// Parameters: a histogram, and the rank groups that ranks declare, each with its limits and its
// number of ranks. Flow: the histogram is divided among the rank groups. Every size is divided in
// the same proportions as far as its graphs fit, so that each rank group's graphs have the mix of
// all graphs. The strong planner (plan_optimizer.h) plans each part for its limits. Then the
// proportions are corrected by the results, until all rank groups need the same number of rounds or
// no correction helps.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_ROUND_PLAN_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_ROUND_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/plan.h"

namespace packhouse {

// Ranks that declare the same limits.
struct RankGroup {
  Limits limits;
  uint32_t num_ranks = 1;

  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

struct RoundPlan {
  static constexpr size_t kMaxRankGroups = 16;
  static constexpr uint32_t kMaxRanks = 65536;

  // By rank group; entries number the tuples of the whole histogram in ascending order, as
  // DrawEpoch() expects. A rank group with few ranks and small limits may have none.
  std::vector<std::vector<Pattern>> patterns_by_rank_group;
  // The largest number of rounds of a rank group: ceil(its packs / its ranks).
  uint64_t rounds = 0;
  // No division of the graphs among these ranks takes fewer rounds.
  uint64_t lower_bound = 0;
};

// Every graph is in exactly one pack, of a rank group whose limits it keeps. Depends on the
// arguments alone. With one rank group this is OptimizePlan, and rounds is ceil(packs / ranks).
//
// `options` as for OptimizePlan. Its steps are for all tried plans together; a warm start is
// ignored.
//
// Errors: INVALID_ARGUMENT for no rank groups or more than kMaxRankGroups, no ranks or more than
// kMaxRanks in all, limits of another number of components; OUT_OF_RANGE naming the largest graph
// that no rank group takes; CANCELLED if the caller gave up. Thread-safe.
absl::StatusOr<RoundPlan> PlanRounds(const SizeHistogram& histogram,
                                     absl::Span<const RankGroup> rank_groups,
                                     const OptimizerOptions& options);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_ROUND_PLAN_H_
