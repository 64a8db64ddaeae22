#include "service/rpc/planning_service.h"

#include <functional>
#include <utility>
#include <vector>

#include "service/planning/planner.h"
#include "service/rpc/unary_call.h"
#include "service/rpc/wire_graphs.h"
#include "service/rpc/wire_planning.h"
#include "service/rpc/wire_sizes.h"
#include "service/sizes/status_macros.h"

namespace packhouse::rpc {
namespace {

absl::StatusOr<NamedHistogram> SourceOf(const v1::PlanRequest& request,
                                        const HistogramStore& histograms, absl::Time now) {
  switch (request.source_case()) {
    case v1::PlanRequest::kHistogram:
      return HistogramFromWire(request.histogram());
    case v1::PlanRequest::kHistogramName: {
      PH_ASSIGN_OR_RETURN(HistogramSnapshot snapshot,
                          histograms.Get(request.histogram_name(), now));
      return NamedHistogram{std::move(snapshot.schema), std::move(snapshot.histogram)};
    }
    case v1::PlanRequest::SOURCE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the request carries neither 'histogram' nor 'histogram_name'");
}

absl::StatusOr<v1::PlanResponse> MakePlan(const v1::PlanRequest& request,
                                          const HistogramStore& histograms,
                                          const CallContext& context,
                                          const std::function<bool()>& is_cancelled) {
  const absl::Time started = context.clock->Now();
  PH_ASSIGN_OR_RETURN(const NamedHistogram source, SourceOf(request, histograms, started));
  PH_ASSIGN_OR_RETURN(std::vector<uint64_t> capacities,
                      CapacitiesFromWire(request.limits(), source.schema));
  PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(std::move(capacities)));
  PH_ASSIGN_OR_RETURN(const std::vector<PlanHeuristic> heuristics,
                      HeuristicsFromWire(request, limits, source.schema));

  std::vector<absl::Duration> elapsed(heuristics.size());
  absl::Time run_started = started;
  PlanProgress progress;
  progress.given_up = is_cancelled;
  progress.finished = [&](size_t i) {
    const absl::Time now = context.clock->Now();
    elapsed[i] = now - std::exchange(run_started, now);
  };
  PH_ASSIGN_OR_RETURN(const PlanComparison comparison,
                      ComparePlans(source.histogram, limits, source.schema, heuristics,
                                   WorkBudget::kDefaultSteps, progress));

  v1::PlanResponse response;
  for (size_t i = 0; i < comparison.outcomes.size(); ++i) {
    SummaryToWire(comparison.outcomes[i], source.schema, elapsed[i], *response.add_summaries());
  }
  *response.mutable_best() = response.summaries(static_cast<int>(comparison.best));
  if (!request.summaries_only()) PlanToWire(comparison.best_plan, *response.mutable_plan());
  context.observer->OnPlanned(context.clock->Now() - started,
                              comparison.outcomes[comparison.best].quality.gap);
  return response;
}

}  // namespace

grpc::ServerUnaryReactor* PlanningService::Plan(grpc::CallbackServerContext* call,
                                                const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return RunUnary<v1::PlanRequest>(context_, Method::kPlan, call, request, response,
                                   [this, call](const v1::PlanRequest& parsed) {
                                     return MakePlan(parsed, *histograms_, context_,
                                                     [call] { return call->IsCancelled(); });
                                   });
}

}  // namespace packhouse::rpc
