// A plan of the ledger, with its memory.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_HELD_PLAN_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_HELD_PLAN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/base/memory_budget.h"
#include "service/engine/jobs/kept_plan.h"

namespace packhouse {

// Reads a plan; its memory is held from `memory`, which may be null, until the result is destroyed.
// DATA_LOSS as ReadPlan(); RESOURCE_EXHAUSTED.
absl::StatusOr<std::shared_ptr<const PlannerResult>> ReadHeldPlan(const KeptPlan& plan,
                                                                  MemoryBudget* memory);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_HELD_PLAN_H_
