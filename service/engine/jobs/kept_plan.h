// The plan of an epoch as the ledger keeps it: compact, and read only when needed.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_KEPT_PLAN_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_KEPT_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/epochs/planner_result.h"

namespace packhouse {

struct KeptPlan {
  // As PlannerResult::receipt.
  std::string receipt;
  // Digest of `bytes`, 32 hexadecimal digits. Equal plans have equal digests.
  std::string digest;
  // A packhouse.internal.Plan.
  std::string bytes;

  friend bool operator==(const KeptPlan&, const KeptPlan&) = default;
};

// A larger plan is not kept: its epoch can go on only with a planner that finds the same plan.
inline constexpr uint64_t kMaxPlanBytes = uint64_t{4} << 20;

// Null if it would take more than kMaxPlanBytes. Takes some 2 bytes for each component of a size,
// and 3 for each entry of a pattern. O(plan).
std::shared_ptr<const KeptPlan> KeepPlan(const PlannerResult& planned);

std::string DigestOfPlan(absl::string_view bytes);

// The plan that was kept. `reserve` is called before memory is allocated; its errors are returned.
// DATA_LOSS, naming the receipt, unless KeepPlan() made the bytes. O(bytes).
absl::StatusOr<PlannerResult> ReadPlan(const KeptPlan& plan,
                                       absl::FunctionRef<absl::Status(uint64_t bytes)> reserve);

// Of an epoch in segments, for people; zeros of others.
struct KeptSegments {
  uint64_t num_segments = 0;
  // No plan of all graphs together has fewer batches; 0 if that is not known.
  uint64_t lower_bound = 0;

  // At most this part of so many batches is lost to segmentation.
  double Loss(uint64_t num_batches) const {
    if (lower_bound == 0) return 0;
    return static_cast<double>(num_batches) / static_cast<double>(lower_bound) - 1;
  }
};

// Zeros also if the plan cannot be read. O(segments).
KeptSegments SegmentsOf(const KeptPlan& plan);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_KEPT_PLAN_H_
