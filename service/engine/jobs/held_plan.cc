#include "service/engine/jobs/held_plan.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<std::shared_ptr<const PlannerResult>> ReadHeldPlan(const KeptPlan& plan,
                                                                  MemoryBudget* memory) {
  struct Held {
    MemoryHold memory;
    PlannerResult planned;
  };
  const auto held = std::make_shared<Held>();
  const std::string what = absl::StrCat("plan ", plan.receipt);
  if (memory != nullptr) {
    PH_ASSIGN_OR_RETURN(held->memory, memory->Hold(what, 0));
  }
  PH_ASSIGN_OR_RETURN(held->planned, ReadPlan(plan, [&](uint64_t bytes) {
                        return memory == nullptr ? absl::OkStatus()
                                                 : held->memory.Grow(what, bytes);
                      }));
  held->memory.ShrinkTo(held->planned.Bytes());
  return std::shared_ptr<const PlannerResult>(held, &held->planned);
}

}  // namespace packhouse
