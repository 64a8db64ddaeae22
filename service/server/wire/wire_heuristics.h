// Ways to plan: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_HEURISTICS_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_HEURISTICS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "packhouse/v1/planning.pb.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// Most heuristics in one request.
inline constexpr int kMaxHeuristics = 256;

// The heuristics to try: the request's list or the default one, then the extras that it asks for.
// An algorithm without parameters may be listed once.
absl::StatusOr<std::vector<PlanHeuristic>> HeuristicsFromWire(const v1::PlanRequest& request,
                                                              const Limits& limits,
                                                              const SizeSchema& schema);

void HeuristicToWire(const PlanHeuristic& heuristic, const SizeSchema& schema,
                     v1::PlanHeuristic& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_HEURISTICS_H_
