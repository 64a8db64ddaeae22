// The strong planner: as few packs as it can find, with a lower bound that proves how good the plan
// is.
//
// Parameters: a histogram, limits, a work budget, a seed, and optionally an earlier plan to start
// from. Flow: first lower bounds; then planners from the cheapest to the most expensive (first-fit
// decreasing, mixing, column generation, reseeded improvement), until the bound is met or the
// budget is used up. Any number of components; the number of graphs is one of them. Sizes that
// differ only where no limit can bind are planned as one (merged_items.h).
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_OPTIMIZER_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_OPTIMIZER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/plan_memory.h"
#include "service/base/vector_level.h"

namespace packhouse {

// The planner that made the plan.
enum class PlanMethod {
  kFirstFitDecreasing,
  kMixing,
  kColumnGeneration,
  kImprovement,
  kWarmStart,
};

// "first-fit decreasing", "mixing", ...
absl::string_view PlanMethodName(PlanMethod method);

struct OptimizerOptions {
  // About 100 ms on one core of 2020. The same number of steps gives the same plan on any machine.
  static constexpr uint64_t kDefaultSteps = 100'000'000;
  // The steps for as many sizes as differ to the planner: kDefaultSteps, plus 2 us for each.
  static uint64_t StepsFor(size_t num_distinct) { return kDefaultSteps + 2000 * num_distinct; }
  static uint64_t StepsFor(const SizeHistogram& histogram, const Limits& limits);

  // Bounds all work except one pass of first-fit decreasing, which always ends.
  uint64_t steps = kDefaultSteps;
  uint64_t seed = 0;
  // A plan for a similar histogram. Its patterns are used again as far as the counts allow. May be
  // null.
  const PackingPlan* warm_start = nullptr;
  // Asked now and then; may be empty.
  std::function<bool()> is_cancelled;
  // Reserves memory for patterns; null: there is room for all.
  PlanMemory* memory = nullptr;
  VectorLevel vector_level = BestVectorLevel();
};

// A plan with its certificate.
struct CertifiedPlan {
  PackingPlan plan;
  uint64_t packs = 0;
  // No plan has fewer packs. If it equals `packs`, the plan is proved optimal.
  LowerBound bound;
  PlanMethod method = PlanMethod::kFirstFitDecreasing;
  uint64_t steps = 0;

  bool optimal() const { return packs == bound.packs; }
};

// Every graph is in exactly one pack, and no pack exceeds `limits`; the plan is verified
// (VerifyPlan) before it is returned. The result depends on the arguments alone, not on the machine
// or on time. With fewer steps it may have more packs; with no steps it is first-fit decreasing.
//
// Errors: CANCELLED if the caller gave up, or `memory` refused. Memory: PlannerBytes(), and what is
// reserved from `memory`. Requires that each graph fits by itself (CheckEachGraphFits).
// Thread-safe.
absl::StatusOr<CertifiedPlan> OptimizePlan(const SizeHistogram& histogram, const Limits& limits,
                                           const OptimizerOptions& options);

// Identifies the inputs of a plan, which give the same plan again: "v8-"; 32 hexadecimal digits, a
// hash over the histogram, the limits, the version of the algorithm, steps, seed, and the warm
// start; "-"; and in base64, for ReadReceipt() (plan_receipt.h), the limits, steps, seed and a hash
// of the histogram.
std::string PlanReceipt(const SizeHistogram& histogram, const Limits& limits,
                        const OptimizerOptions& options);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_OPTIMIZER_PLAN_OPTIMIZER_H_
