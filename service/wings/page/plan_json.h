// Plans and searches for limits, as the page shows them.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PLAN_JSON_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PLAN_JSON_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "packhouse/v1/planning.pb.h"
#include "service/wings/page/json.h"

namespace packhouse::page {

// The figures of one way to plan; an unfinished one has "name" and "unfinished" alone. Ratios are
// in [0, 1]; capacity null: no limit.
Json PlanSummaryJson(const v1::PlanSummary& summary);

inline constexpr size_t kMostPatterns = 500;
inline constexpr size_t kMostEntries = 32;

// What is in the packs. "patterns": those with the most packs first, at most `most`, each with
// "repeats", "rows" and "fill" by component (fill null: no limit), "binds" (the fullest component)
// and "graphs": [{"size", "copies"}] of at most kMostEntries sizes. "num_patterns"; "binds": packs
// by the component that binds; "fill": packs by twentieths of each limited component's capacity,
// the last with the packs that are exactly full. The components are those of `best`. O(patterns and
// their entries).
Json PatternsJson(const v1::PlanResponse& response, size_t most);

// {"capacities": {component: rows}, "packs", "lower_bound", "epoch_cost", "harmonic_mean",
// "components", "batch_bytes"}.
Json TunedShapeJson(const v1::TunedShape& shape);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PLAN_JSON_H_
