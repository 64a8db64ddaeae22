// Plans: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_RPC_WIRE_PLANNING_H_
#define PACKHOUSE_SERVICE_RPC_WIRE_PLANNING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "packhouse/v1/planning.pb.h"
#include "service/planning/limits.h"
#include "service/planning/plan.h"
#include "service/planning/planner.h"
#include "service/sizes/size_schema.h"

namespace packhouse::rpc {

// Most heuristics in one request.
inline constexpr int kMaxHeuristics = 256;

// What to try: the request's list or the default one, then the extras it asks for.
absl::StatusOr<std::vector<PlanHeuristic>> HeuristicsFromWire(const v1::PlanRequest& request,
                                                              const Limits& limits,
                                                              const SizeSchema& schema);

void SummaryToWire(const PlanOutcome& outcome, const SizeSchema& schema, absl::Duration elapsed,
                   v1::PlanSummary& wire);

void PlanToWire(const PackingPlan& plan, v1::PackingPlan& wire);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_WIRE_PLANNING_H_
