#include "service/server/services/planning_service.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "packhouse/v1/planning.grpc.pb.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planning_room.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_memory.h"
#include "service/server/wire/wire_planning.h"
#include "service/server/wire/wire_tuning.h"

namespace packhouse::rpc {
namespace {

// The histogram of a PlanRequest or a TuneRequest. `memory` holds its memory.
template <typename Request>
absl::StatusOr<NamedHistogram> SourceOf(const Request& request, const HistogramStore& histograms,
                                        absl::Time now, const Making& making, MemoryHold& memory) {
  switch (request.source_case()) {
    case Request::kHistogram: {
      PH_RETURN_IF_ERROR(CheckPlannedSizes(request.histogram().counts().size() / sizeof(uint64_t)));
      PH_ASSIGN_OR_RETURN(memory, making.Hold("the histogram of the request",
                                              BytesOfHistogram(request.histogram())));
      return HistogramFromWire(request.histogram());
    }
    case Request::kHistogramName: {
      PH_ASSIGN_OR_RETURN(HistogramSnapshot snapshot,
                          histograms.Get(request.histogram_name(), now));
      memory = std::move(snapshot.memory);
      return NamedHistogram{std::move(snapshot.schema), std::move(snapshot.histogram)};
    }
    case Request::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the request carries neither 'histogram' nor 'histogram_name'");
}

absl::StatusOr<v1::PlanResponse> MakePlan(const v1::PlanRequest& request,
                                          const HistogramStore& histograms,
                                          uint64_t max_graphs_per_batch, RequestCall& call) {
  const CallContext& context = call.context();
  const absl::Time started = context.clock->Now();
  const Making making(context.working, call.cancellation());
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(const NamedHistogram source,
                      SourceOf(request, histograms, started, making, memory));
  PlanningRoom room(making, source.histogram.num_distinct(), source.schema.num_components());
  PH_RETURN_IF_ERROR(room.HoldPlans());
  MemoryHold warm_start;
  if (request.has_warm_start()) {
    PH_ASSIGN_OR_RETURN(warm_start, making.Hold("warm_start", BytesOfPlan(request.warm_start())));
  }
  PH_ASSIGN_OR_RETURN(const PlanTask task, PlanTaskFromWire(request, source, max_graphs_per_batch));
  PH_RETURN_IF_ERROR(
      CheckEachGraphFits(source.histogram, task.limits, source.schema, task.capacities));

  std::vector<absl::Duration> elapsed(task.heuristics.size());
  absl::Time run_started = started;
  ComparisonOptions options = task.options();
  options.optimizer.is_cancelled = making.is_cancelled();
  options.optimizer.memory = room.memory();
  options.finished = [&](size_t i) {
    const absl::Time now = context.clock->Now();
    elapsed[i] = now - std::exchange(run_started, now);
  };
  absl::StatusOr<PlanComparison> compared =
      ComparePlans(source.histogram, task.limits, source.schema, task.heuristics, options);
  if (!compared.ok()) return room.Reason(compared.status());
  PlanComparison& comparison = *compared;
  for (PlanOutcome& outcome : comparison.outcomes) {
    if (outcome.finished) LayOutEfficiencies(task.capacities, outcome.quality.components);
  }

  v1::PlanResponse response;
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    SummaryToWire(comparison.outcomes[i], source.schema, elapsed[i], *response.add_summaries());
  }
  *response.mutable_best() = response.summaries(static_cast<int>(comparison.best));
  if (!request.summaries_only()) {
    PH_ASSIGN_OR_RETURN(call.answer_memory(),
                        making.Hold("the plan as it is sent", BytesToWire(comparison.best_plan)));
    PlanToWire(comparison.best_plan, *response.mutable_plan());
  }
  context.observer->OnPlanned(context.clock->Now() - started,
                              comparison.outcomes[comparison.best].quality.gap);
  return response;
}

absl::StatusOr<std::unique_ptr<ResponseSource<v1::TuneResponse>>> FindLimits(
    const v1::TuneRequest& request, const HistogramStore& histograms, uint64_t max_graphs_per_batch,
    const MeasuredModels* measured, ByteQuota* quota, ProgressSink<v1::TuneResponse>& sink) {
  const CallContext& context = sink.call().context();
  const Making making(context.working, sink.call().cancellation());
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(NamedHistogram source,
                      SourceOf(request, histograms, context.clock->Now(), making, memory));
  PlanningRoom room(making, source.histogram.num_distinct(), source.schema.num_components());
  PH_RETURN_IF_ERROR(room.HoldTuning());
  PH_ASSIGN_OR_RETURN(
      const DeviceProfile profile,
      PaddedProfileFromWire(request, source.schema, max_graphs_per_batch, measured));
  PH_ASSIGN_OR_RETURN(TuneOptions options, TuneOptionsFromWire(request));
  options.is_cancelled = making.is_cancelled();
  options.memory = room.memory();
  options.progress = [&](const TuneProgress& progress) {
    v1::TuneResponse response;
    TuneProgressToWire(progress, source.schema, *response.mutable_progress());
    sink.Report(response);
  };
  absl::StatusOr<TuneResult> result = TuneLimits(source.histogram, profile, source.schema, options);
  if (!result.ok()) return room.Reason(result.status());
  return TuneAnswers::Create(*std::move(result), std::move(source.schema), quota);
}

}  // namespace

PlanningService::PlanningService(const CallContext& context, const HistogramStore* histograms,
                                 ByteQuota* quota, uint64_t max_graphs_per_batch,
                                 const MeasuredModels* measured)
    : EarlyService(v1::PlanningService::service_full_name(), context) {
  Serve({
      Row(Method::kPlan, Waits::kPlans,
          [histograms, max_graphs_per_batch](const v1::PlanRequest& request, RequestCall& call) {
            return MakePlan(request, *histograms, max_graphs_per_batch, call);
          }),
      Row(Method::kTune, Waits::kPlans,
          [=](const v1::TuneRequest& request, ProgressSink<v1::TuneResponse>& sink) {
            return FindLimits(request, *histograms, max_graphs_per_batch, measured, quota, sink);
          }),
  });
}

}  // namespace packhouse::rpc
