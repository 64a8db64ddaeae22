// Receipts of plans: what a plan was made of, so that it can be made again.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_RECEIPT_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_RECEIPT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"

namespace packhouse {

// The version of OptimizePlan: changes whenever the same arguments may give another plan.
inline constexpr uint64_t kPlannerVersion = 8;

// What a receipt says besides its hash.
struct ReceiptTerms {
  uint64_t version = 0;
  // The first 16 hexadecimal digits of the hash of the histogram.
  std::string sizes;
  uint64_t steps = 0;
  uint64_t seed = 0;
  bool has_warm_start = false;
  // One for each component, `graphs` last; kUnlimited where there is no limit. These are the limits
  // without what padding keeps free.
  std::vector<uint64_t> capacities;
};

// The terms of one plan's receipt. INVALID_ARGUMENT, quoting it, for any other text, also for the
// receipts of several plans, which are joined by "+"; FAILED_PRECONDITION naming both versions for
// a receipt of another version, whose terms may be others.
absl::StatusOr<ReceiptTerms> ReadReceipt(absl::string_view receipt);

// OK if `histogram` with the options of the terms has this receipt. FAILED_PRECONDITION: its sizes
// are others; or they are the same, and the warm start is another; or, for a receipt without warm
// start, its terms were changed.
absl::Status CheckReceipt(absl::string_view receipt, const ReceiptTerms& terms,
                          const SizeHistogram& histogram, const Limits& limits,
                          const OptimizerOptions& options);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_RECEIPT_H_
