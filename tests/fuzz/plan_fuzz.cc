// Any bytes as a Plan request. Whatever comes in: no crash, no plan that fails its verification, no
// plan below its lower bound, and plans that come back as they were sent.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "packhouse/v1/planning.pb.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_planning.h"

namespace {

// Longer plans would make the fuzzer slow and find nothing else.
constexpr uint64_t kSteps = 20'000;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::v1::PlanRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto source = packhouse::HistogramFromWire(request.histogram());
  if (!source.ok()) return 0;
  const auto task = packhouse::PlanTaskFromWire(request, *source, 65536);
  if (!task.ok()) return 0;
  packhouse::ComparisonOptions options = task->options();
  options.heuristic_steps = kSteps;
  options.optimizer.steps = std::min(options.optimizer.steps, kSteps);
  const auto plans = packhouse::ComparePlans(source->histogram, task->limits, source->schema,
                                             task->heuristics, options);
  if (!plans.ok()) {
    if (absl::IsInternal(plans.status())) {
      std::fprintf(stderr, "%s\n", plans.status().ToString().c_str());
      std::abort();
    }
    return 0;
  }
  for (const packhouse::PlanOutcome& outcome : plans->outcomes) {
    packhouse::v1::PlanSummary summary;
    packhouse::SummaryToWire(outcome, source->schema, absl::ZeroDuration(), summary);
    if (!outcome.finished) continue;
    if (outcome.keeps_limits && outcome.quality.packs < outcome.bound.packs) std::abort();
    if (outcome.steps > options.optimizer.steps) std::abort();
  }
  // No pattern of a plan counts more than 2^64 - 1 rows, or it would not keep the limits; nor does
  // the plan count more graphs than the histogram.
  packhouse::v1::PackingPlan wire;
  packhouse::PlanToWire(plans->best_plan, wire);
  const auto back = packhouse::PlanFromWire(wire, source->histogram.num_components(), "warm_start");
  if (!back.ok() || back->patterns != plans->best_plan.patterns) std::abort();
  return 0;
}
