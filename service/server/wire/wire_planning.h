// Plans: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_PLANNING_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_PLANNING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "packhouse/v1/planning.pb.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {

// Bounds on the time and memory of every request, besides kMaxHeuristics. The most steps for the
// strong planner, or for a search for limits (some 100 seconds).
inline constexpr uint64_t kMaxBudgetSteps = 100'000'000'000;
// The most size tuples in a histogram that is planned: first-fit decreasing always makes its one
// pass, which no budget bounds. ServerOptions::max_message_bytes bounds the answer.
inline constexpr uint64_t kMaxPlannedSizes = uint64_t{1} << 20;

// RESOURCE_EXHAUSTED, naming the bound, for a histogram of too many size tuples.
absl::Status CheckPlannedSizes(uint64_t num_tuples);

// 0: `default_steps`.
absl::StatusOr<uint64_t> BudgetFromWire(uint64_t wire, uint64_t default_steps);

// What a request asks for, without its histogram.
struct PlanTask {
  // The usable limits: without what padding keeps free.
  Limits limits;
  // Capacities with what padding keeps free; kUnlimited where there is no limit.
  std::vector<uint64_t> capacities;
  // The request's list or the default one, then the extras that it asks for.
  std::vector<PlanHeuristic> heuristics;
  uint64_t budget_steps = OptimizerOptions::kDefaultSteps;
  uint64_t seed = 0;
  std::optional<PackingPlan> warm_start;

  // The task must outlive the options, which point to its warm start.
  ComparisonOptions options() const;
};
// `max_graphs_per_batch`: this server's bound, for requests that name a padding.
absl::StatusOr<PlanTask> PlanTaskFromWire(const v1::PlanRequest& request,
                                          const NamedHistogram& source,
                                          uint64_t max_graphs_per_batch);

void SummaryToWire(const PlanOutcome& outcome, const SizeSchema& schema, absl::Duration elapsed,
                   v1::PlanSummary& wire);

// In schema order, `graphs` last.
void EfficienciesToWire(absl::Span<const ComponentEfficiency> components, const SizeSchema& schema,
                        google::protobuf::RepeatedPtrField<v1::ComponentEfficiency>& wire);

void PlanToWire(const PackingPlan& plan, v1::PackingPlan& wire);

// The inverse, for any plan that is possible for some histogram of l components: no empty pattern,
// no entry beyond the tuples, no zero, no sum above 2^64 - 1. `field` is for messages.
absl::StatusOr<PackingPlan> PlanFromWire(const v1::PackingPlan& wire, size_t num_components,
                                         absl::string_view field);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_PLANNING_H_
