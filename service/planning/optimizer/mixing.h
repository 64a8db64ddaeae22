// The mixing planner: packs whose mix of sizes is that of what is left.
//
// One pack at a time. It is seeded with the hardest item left; then items are drawn in proportion
// to what is left, so that the small ones, which alone can fill a pack exactly, last as long as the
// large ones; nearer to the end, of a few drawn ones that is taken which leaves room in the
// proportions of the demand; when little more than an item is missing, drawn items, the best
// partner of each, and exchanges of one item are tried until the pack is as full as the packs must
// be on average. The pattern is used as often as the counts allow.
#ifndef PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_MIXING_H_
#define PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_MIXING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/base/vector_level.h"
#include "service/planning/packing_problem.h"
#include "service/planning/plan.h"
#include "service/planning/work_budget.h"

namespace packhouse {

struct MixingOptions {
  uint64_t seed = 0;
  // Packs that would be few enough: below that the search is not made harder.
  uint64_t target = 0;
  // Stops, without a plan, as soon as there must be so many packs.
  uint64_t too_many = UINT64_MAX;
  // Ways to finish a pack that are tried at most.
  uint32_t attempts = 48;
  // A pack is finished exactly when fewer mean items than this are missing.
  double finish_at = 2.5;
  VectorLevel vector_level = BestVectorLevel();
};

// Uses up all items; nothing if there would be too many packs or the caller gave up. When `budget`
// runs out, the rest is packed by first-fit decreasing. Patterns have items ascending and may
// repeat one another. The same arguments give the same patterns. Thread-safe; one step of `budget`
// is about a nanosecond.
std::optional<std::vector<Pattern>> PlanByMixing(const PackingProblem& problem,
                                                 const MixingOptions& options, WorkBudget& budget);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PLANNING_OPTIMIZER_MIXING_H_
