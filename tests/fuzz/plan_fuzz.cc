// Any bytes as a Plan request. Whatever comes in: no crash, no plan that fails its verification, no
// plan below its lower bound.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "packhouse/v1/planning.pb.h"
#include "service/planning/planner.h"
#include "service/rpc/wire_graphs.h"
#include "service/rpc/wire_planning.h"
#include "service/rpc/wire_sizes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::v1::PlanRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto source = packhouse::rpc::HistogramFromWire(request.histogram());
  if (!source.ok()) return 0;
  auto capacities = packhouse::rpc::CapacitiesFromWire(request.limits(), source->schema);
  if (!capacities.ok()) return 0;
  const auto limits = packhouse::Limits::Create(*std::move(capacities));
  if (!limits.ok()) return 0;
  const auto heuristics = packhouse::rpc::HeuristicsFromWire(request, *limits, source->schema);
  if (!heuristics.ok()) return 0;
  const auto plans = packhouse::ComparePlans(source->histogram, *limits, source->schema,
                                             *heuristics, /*steps=*/10000);
  if (!plans.ok()) {
    if (plans.status().code() == absl::StatusCode::kInternal) std::abort();
    return 0;
  }
  for (const packhouse::PlanOutcome& outcome : plans->outcomes) {
    if (outcome.finished && outcome.keeps_limits &&
        outcome.quality.packs < outcome.quality.lower_bound) {
      std::abort();
    }
  }
  return 0;
}
