#include "service/server/services/receipt_plans.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/baselines/planner.h"
#include "service/algorithms/planning/optimizer/plan_receipt.h"
#include "service/base/mixture_name.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planning_room.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_datasets.h"
#include "service/server/wire/wire_memory.h"
#include "service/server/wire/wire_planning.h"

namespace packhouse {
namespace {

// The sizes that a receipt's plan is to be made of. `memory` holds their memory.
absl::StatusOr<NamedHistogram> SizesOfReceipt(const v1::ReplanRequest& request,
                                              const HistogramStore& histograms,
                                              const DatasetStore* datasets, absl::Time now,
                                              const Making& making, MemoryHold& memory) {
  switch (request.source_case()) {
    case v1::ReplanRequest::kHistogram: {
      PH_RETURN_IF_ERROR(CheckPlannedSizes(request.histogram().counts().size() / sizeof(uint64_t)));
      PH_ASSIGN_OR_RETURN(memory, making.Hold("the histogram of the request",
                                              BytesOfHistogram(request.histogram())));
      return HistogramFromWire(request.histogram());
    }
    case v1::ReplanRequest::kHistogramName: {
      PH_ASSIGN_OR_RETURN(HistogramSnapshot snapshot,
                          histograms.Get(request.histogram_name(), now));
      memory = std::move(snapshot.memory);
      return NamedHistogram{std::move(snapshot.schema), std::move(snapshot.histogram)};
    }
    case v1::ReplanRequest::kDataset:
      break;
    case v1::ReplanRequest::SOURCE_NOT_SET:
      return absl::InvalidArgumentError("the request has no source");
  }
  if (datasets == nullptr) return NoDataFolder();
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets->Get(request.dataset()));
  constexpr absl::string_view kWhat = "the histogram of the data set";
  PH_ASSIGN_OR_RETURN(memory, making.Hold(kWhat, 0));
  PH_ASSIGN_OR_RETURN(SizeHistogram histogram,
                      datasets->GetReservedHistogram(request.dataset(), [&](uint64_t bytes) {
                        return making.Grow(kWhat, bytes, memory);
                      }));
  PH_RETURN_IF_ERROR(CheckPlannedSizes(histogram.num_distinct()));
  memory.ShrinkTo(SizeHistogram::BytesFor(histogram.num_distinct(), histogram.num_components()));
  return NamedHistogram{info.schema->sizes(), std::move(histogram)};
}

// Epochs leave out the graphs that exceed their limits.
absl::StatusOr<SizeHistogram> WithoutOversize(const SizeHistogram& histogram,
                                              const Limits& limits) {
  SizeHistogram fitting(histogram.num_components());
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    if (limits.FirstExceeded(histogram.tuple(row))) continue;
    PH_RETURN_IF_ERROR(fitting.Add(histogram.tuple(row), histogram.count(row)));
  }
  return fitting;
}

// Whether the caller may see the job and the data sets, or source graph, of an epoch.
bool MaySeeEpoch(const CallContext& context, const EpochIdentity& identity) {
  return context.authorizer == nullptr ||
         (context.authorizer->MaySee(context.principal(), identity.key.job) &&
          absl::c_all_of(NamesInMixture(identity.dataset), [&](absl::string_view dataset) {
            return context.authorizer->MaySee(context.principal(), dataset);
          }));
}

// Names for the components of a kept plan. Groups have one component more than graphs.
std::vector<std::string> NamesFor(const EpochIdentity& identity, size_t num_components,
                                  const DatasetStore& datasets) {
  std::vector<std::string> names;
  const absl::StatusOr<DatasetInfo> info = datasets.Get(identity.dataset);
  for (size_t k = 0; k < num_components; ++k) {
    names.push_back(info.ok() && k < info->schema->sizes().num_components()
                        ? std::string(info->schema->sizes().name(k))
                        : absl::StrCat("component ", k));
  }
  names.emplace_back("graphs");
  return names;
}

}  // namespace

absl::StatusOr<v1::ReplanResponse> PlanAgain(const v1::ReplanRequest& request,
                                             const HistogramStore& histograms,
                                             const DatasetStore* datasets, RequestCall& call) {
  const CallContext& context = call.context();
  PH_ASSIGN_OR_RETURN(const ReceiptTerms terms, ReadReceipt(request.receipt()));
  PH_RETURN_IF_ERROR(BudgetFromWire(terms.steps, 0).status());
  const absl::Time started = context.clock->Now();
  const Making making(context.working, call.cancellation());
  MemoryHold memory;
  PH_ASSIGN_OR_RETURN(NamedHistogram source,
                      SizesOfReceipt(request, histograms, datasets, started, making, memory));
  PlanningRoom room(making, source.histogram.num_distinct(), source.schema.num_components());
  PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldPlans());
  if (terms.capacities.size() != source.schema.num_components() + 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "receipt ", Quoted(request.receipt()), ": is for sizes of ", terms.capacities.size() - 1,
        " components, these have ", source.schema.num_components()));
  }
  PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(terms.capacities));
  if (request.has_dataset()) {
    PH_ASSIGN_OR_RETURN(source.histogram, WithoutOversize(source.histogram, limits));
  }
  ComparisonOptions options;
  options.optimizer.steps = terms.steps;
  options.optimizer.seed = terms.seed;
  options.optimizer.is_cancelled = making.is_cancelled();
  options.optimizer.memory = room.memory();
  MemoryHold of_warm_start;
  std::optional<PackingPlan> warm_start;
  if (request.has_warm_start()) {
    PH_ASSIGN_OR_RETURN(of_warm_start,
                        making.Hold("warm_start", BytesOfPlan(request.warm_start())));
    PH_ASSIGN_OR_RETURN(warm_start, PlanFromWire(request.warm_start(),
                                                 source.schema.num_components(), "warm_start"));
    options.optimizer.warm_start = &*warm_start;
  }
  PH_RETURN_IF_ERROR(
      CheckReceipt(request.receipt(), terms, source.histogram, limits, options.optimizer));
  absl::StatusOr<PlanComparison> made =
      ComparePlans(source.histogram, limits, source.schema, DefaultHeuristics(), options);
  if (!made.ok()) return room.Reason(made.status());
  v1::ReplanResponse response;
  v1::PlanResponse& plan = *response.mutable_plan();
  SummaryToWire(made->outcomes[0], source.schema, context.clock->Now() - started,
                *plan.add_summaries());
  *plan.mutable_best() = plan.summaries(0);
  if (!request.summaries_only()) {
    PH_ASSIGN_OR_RETURN(call.answer_memory(),
                        making.Hold("the plan as it is sent", BytesToWire(made->best_plan)));
    PlanToWire(made->best_plan, *plan.mutable_plan());
  }
  return response;
}

absl::StatusOr<v1::ReplanResponse> PlanOfLedger(const v1::ReplanRequest& request, const Jobs* jobs,
                                                const DatasetStore* datasets, RequestCall& call) {
  const CallContext& context = call.context();
  if (request.receipt().empty()) return absl::InvalidArgumentError("receipt: is empty");
  if (jobs == nullptr || datasets == nullptr) return NoDataFolder();
  const auto may_show = [&](const EpochIdentity& identity) {
    return MaySeeEpoch(context, identity);
  };
  const auto may_see = [&](const std::string& job) {
    return context.authorizer == nullptr || context.authorizer->MaySee(context.principal(), job);
  };
  PH_ASSIGN_OR_RETURN(
      const Jobs::Planned found,
      jobs->FindPlan(request.receipt(), may_see, may_show, [&call] { return call.YieldTurn(); }));
  const EpochIdentity& identity = found.opened.identity;
  v1::ReplanResponse response;
  response.set_job(identity.key.job);
  response.set_epoch(identity.key.epoch);
  response.set_dataset(identity.dataset);
  const Making making(context.working, nullptr);
  PH_ASSIGN_OR_RETURN(const MemoryHold of_copy,
                      making.Hold("the plan of the receipt", found.plan->Bytes()));
  PackingPlan plan;
  plan.num_components = found.plan->num_components;
  plan.tuples = found.plan->tuples;
  for (const std::vector<Pattern>& of_group : found.plan->patterns) {
    plan.patterns.insert(plan.patterns.end(), of_group.begin(), of_group.end());
  }
  v1::PlanSummary& best = *response.mutable_plan()->mutable_best();
  best.set_packs(plan.num_packs());
  best.set_lower_bound(found.plan->lower_bound);
  best.set_keeps_limits(true);
  best.set_optimal(plan.num_packs() == found.plan->lower_bound);
  best.set_num_patterns(plan.patterns.size());
  best.set_receipt(found.plan->receipt);
  for (std::string& name : NamesFor(identity, plan.num_components, *datasets)) {
    best.add_components()->set_component(std::move(name));
  }
  *response.mutable_plan()->add_summaries() = best;
  if (!request.summaries_only()) {
    PH_ASSIGN_OR_RETURN(call.answer_memory(),
                        making.Hold("the plan as it is sent", BytesToWire(plan)));
    PlanToWire(plan, *response.mutable_plan()->mutable_plan());
  }
  return response;
}

}  // namespace packhouse
