// The plan of an epoch as the ledger keeps it: compact, and read only by who must have it.
#ifndef PACKHOUSE_SERVICE_LEDGER_KEPT_PLAN_H_
#define PACKHOUSE_SERVICE_LEDGER_KEPT_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/epochs/planner_result.h"

namespace packhouse {

struct KeptPlan {
  // As PlannerResult::receipt.
  std::string receipt;
  // Of `bytes`, 32 hexadecimal digits: equal plans have equal ones.
  std::string digest;
  // A packhouse.internal.Plan.
  std::string bytes;

  friend bool operator==(const KeptPlan&, const KeptPlan&) = default;
};

// A plan that takes more is not kept: its epoch goes on only with a planner that finds the same.
inline constexpr uint64_t kMaxPlanBytes = uint64_t{4} << 20;

// Null if it would take more than kMaxPlanBytes. Some 2 bytes a component of a size, and 3 an entry
// of a pattern. O(plan).
std::shared_ptr<const KeptPlan> KeepPlan(const PlannerResult& planned);

std::string DigestOfPlan(absl::string_view bytes);

// As it was. `reserve` is asked for memory before it is allocated: its errors are returned.
// DATA_LOSS, naming the receipt, for what KeepPlan() has not made. O(bytes).
absl::StatusOr<PlannerResult> ReadPlan(const KeptPlan& plan,
                                       absl::FunctionRef<absl::Status(uint64_t bytes)> reserve);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_LEDGER_KEPT_PLAN_H_
