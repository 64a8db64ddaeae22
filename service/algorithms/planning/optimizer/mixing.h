// The mixing planner: each pack has the mix of sizes of the items that are left.
//
// One pack is made at a time. It is seeded with the hardest item that is left. Then items are drawn
// in proportion to what is left: only small items can fill a pack exactly, and in this way they
// last as long as the large ones. Beside an item that leaves a room of an unusual shape, items of
// that shape come first (lopsided_rooms.h). Nearer to the end a few items are drawn, and the one is
// taken that leaves room in the proportions of the demand. When little more than one item is
// missing, three things are tried until the pack is as full as the packs must be on average: drawn
// items, the best partner of each, and exchanges of one item. The pattern is used as often as the
// counts allow.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_MIXING_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_MIXING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/packing_problem.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/vector_level.h"

namespace packhouse {

struct MixingOptions {
  uint64_t seed = 0;
  // A number of packs that is good enough: the planner does not try harder to get fewer.
  uint64_t target = 0;
  // Stops, without a plan, as soon as the plan must have this many packs.
  uint64_t too_many = UINT64_MAX;
  // The most ways to finish a pack that are tried.
  uint32_t attempts = 48;
  // Drawn items to choose from, when few are missing. More of them help where the components of a
  // size have little to do with each other.
  int choices = 4;
  // The exact search for the end of a pack starts when fewer mean items than this are missing.
  double finish_at = 2.5;
  VectorLevel vector_level = BestVectorLevel();
};

// Patterns that have every item once; nullopt if there would be too many packs or the caller gave
// up. When `budget` runs out, the rest is packed by first-fit decreasing. Patterns have items
// ascending and may repeat one another. The same arguments give the same patterns. Thread-safe; one
// step of `budget` is about a nanosecond.
std::optional<std::vector<Pattern>> PlanByMixing(const PackingProblem& problem,
                                                 const MixingOptions& options, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_MIXING_H_
