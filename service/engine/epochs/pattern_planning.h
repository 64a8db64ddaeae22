// Fifth step of a plan: which sizes go together.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PATTERN_PLANNING_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PATTERN_PLANNING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/epochs/size_classes.h"

namespace packhouse {

// Limits by rank group and shape, as EpochShapes. Several rank groups have one shape each.
using ShapeLimits = std::vector<std::vector<Limits>>;

// Plans, and fills in the result: each item of `classes` has one place. Several rank groups are
// planned as in round_plan.h, with the given numbers of ranks. One rank group with one shape is
// planned as in plan_optimizer.h, with several shapes as in shape_sets.h. `steps` are the
// planner's, by default as many as the sizes need. Returns the memory that is reserved for
// `result`.
//
// The planners' errors; RESOURCE_EXHAUSTED and CANCELLED as `making`. Cost: the planner's budget.
absl::StatusOr<MemoryHold> PlanPatterns(const SizeClasses& classes, const ShapeLimits& limits,
                                        absl::Span<const uint32_t> num_ranks,
                                        std::optional<uint64_t> steps, const Making& making,
                                        PlannerResult& result);

// The same for sizes whose items are elsewhere. The histogram's memory is the caller's.
absl::StatusOr<MemoryHold> PlanHistogram(const SizeHistogram& histogram, const ShapeLimits& limits,
                                         absl::Span<const uint32_t> num_ranks,
                                         std::optional<uint64_t> steps, const Making& making,
                                         PlannerResult& result);

// Checks that an earlier result of a planner is a plan of these classes within these limits.
//
// DATA_LOSS naming the plan and what differs; RESOURCE_EXHAUSTED and CANCELLED as `making`.
// O(entries).
absl::Status CheckGiven(const PlannerResult& given, const SizeClasses& classes,
                        const ShapeLimits& limits, const Making& making);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PATTERN_PLANNING_H_
