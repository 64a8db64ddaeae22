#include "service/server/wire/wire_planning.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_heuristics.h"

namespace packhouse {
namespace {

v1::LowerBoundKind LowerBoundKindToWire(LowerBoundKind kind) {
  switch (kind) {
    case LowerBoundKind::kVolume:
      return v1::LOWER_BOUND_KIND_VOLUME;
    case LowerBoundKind::kLiftedVolume:
      return v1::LOWER_BOUND_KIND_LIFTED_VOLUME;
    case LowerBoundKind::kLinearProgram:
      return v1::LOWER_BOUND_KIND_LINEAR_PROGRAM;
  }
  return v1::LOWER_BOUND_KIND_UNSPECIFIED;
}

}  // namespace

absl::Status CheckPlannedSizes(uint64_t num_tuples) {
  if (num_tuples <= kMaxPlannedSizes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("histogram: ", num_tuples, " size tuples, at most ", kMaxPlannedSizes,
                   " are planned; merge sizes that are much alike"));
}

absl::StatusOr<uint64_t> BudgetFromWire(uint64_t wire, uint64_t default_steps) {
  if (wire > kMaxBudgetSteps) {
    return absl::InvalidArgumentError(
        absl::StrCat("budget_steps: ", wire, ", at most ", kMaxBudgetSteps));
  }
  return wire == 0 ? default_steps : wire;
}

ComparisonOptions PlanTask::options() const {
  ComparisonOptions options;
  options.optimizer.steps = budget_steps;
  options.optimizer.seed = seed;
  options.optimizer.warm_start = warm_start ? &*warm_start : nullptr;
  return options;
}

absl::StatusOr<PlanTask> PlanTaskFromWire(const v1::PlanRequest& request,
                                          const NamedHistogram& source,
                                          uint64_t max_graphs_per_batch) {
  const SizeSchema& schema = source.schema;
  PH_ASSIGN_OR_RETURN(std::vector<uint64_t> capacities,
                      CapacitiesFromWire(request.limits(), schema));
  PH_ASSIGN_OR_RETURN(Limits limits, Limits::Create(capacities));
  uint64_t default_steps = OptimizerOptions::kDefaultSteps;
  if (request.padding() != v1::PADDING_UNSPECIFIED) {
    // Checked in the same way as for an epoch, so that the errors are the same.
    BatchShapeOptions options;
    PH_ASSIGN_OR_RETURN(options.padding, PaddingFromWire(request.padding()));
    options.whole_graphs = false;
    options.max_graphs_per_batch = max_graphs_per_batch;
    PH_ASSIGN_OR_RETURN(const GraphSchema graphs, SchemaOfTargets(schema, request.index_targets(),
                                                                  request.ragged_components()));
    PH_ASSIGN_OR_RETURN(BatchShape shape, BatchShape::Resolve(graphs, capacities, options));
    capacities = std::move(shape.capacities);
    limits = std::move(shape.usable);
    default_steps = OptimizerOptions::StepsFor(source.histogram, limits);
  }
  PH_ASSIGN_OR_RETURN(std::vector<PlanHeuristic> heuristics,
                      HeuristicsFromWire(request, limits, schema));
  PH_ASSIGN_OR_RETURN(const uint64_t budget_steps,
                      BudgetFromWire(request.budget_steps(), default_steps));
  std::optional<PackingPlan> warm_start;
  if (request.has_warm_start()) {
    PH_ASSIGN_OR_RETURN(warm_start,
                        PlanFromWire(request.warm_start(), schema.num_components(), "warm_start"));
  }
  return PlanTask{std::move(limits), std::move(capacities), std::move(heuristics),
                  budget_steps,      request.seed(),        std::move(warm_start)};
}

void EfficienciesToWire(absl::Span<const ComponentEfficiency> components, const SizeSchema& schema,
                        google::protobuf::RepeatedPtrField<v1::ComponentEfficiency>& wire) {
  wire.Clear();
  for (size_t k = 0; k < components.size(); ++k) {
    const ComponentEfficiency& from = components[k];
    v1::ComponentEfficiency& to = *wire.Add();
    to.set_component(std::string(schema.name(k)));
    to.set_capacity(from.capacity == kUnlimited ? 0 : from.capacity);
    to.set_efficiency(from.efficiency);
    to.set_fullest_pack(from.fullest_pack);
    to.set_efficiency_of_fullest(from.efficiency_of_fullest);
  }
}

void SummaryToWire(const PlanOutcome& outcome, const SizeSchema& schema, absl::Duration elapsed,
                   v1::PlanSummary& wire) {
  wire.Clear();
  wire.set_name(HeuristicName(outcome.heuristic, schema));
  HeuristicToWire(outcome.heuristic, schema, *wire.mutable_heuristic());
  wire.set_unfinished(!outcome.finished);
  if (!outcome.finished) return;
  const PlanQuality& quality = outcome.quality;
  wire.set_packs(quality.packs);
  wire.set_lower_bound(outcome.bound.packs);
  wire.set_lower_bound_name(LowerBoundName(outcome.bound, schema));
  wire.set_lower_bound_kind(LowerBoundKindToWire(outcome.bound.kind));
  wire.set_gap(quality.gap);
  wire.set_optimal(outcome.optimal);
  EfficienciesToWire(quality.components, schema, *wire.mutable_components());
  wire.set_keeps_limits(outcome.keeps_limits);
  wire.set_num_patterns(outcome.num_patterns);
  DurationToWire(elapsed, *wire.mutable_elapsed());
  if (outcome.winner) wire.set_winner(std::string(PlanMethodName(*outcome.winner)));
  wire.set_steps(outcome.steps);
  wire.set_receipt(outcome.receipt);
}

void PlanToWire(const PackingPlan& plan, v1::PackingPlan& wire) {
  wire.Clear();
  wire.set_tuples(Uint32sToWire(plan.tuples));
  for (const Pattern& from : plan.patterns) {
    v1::Pattern& to = *wire.add_patterns();
    to.set_repeats(from.repeats);
    for (const auto& [tuple, copies] : from.entries) {
      v1::PatternEntry& entry = *to.add_entries();
      entry.set_tuple(tuple);
      entry.set_copies(copies);
    }
  }
}

absl::StatusOr<PackingPlan> PlanFromWire(const v1::PackingPlan& wire, size_t num_components,
                                         absl::string_view field) {
  const auto refuse = [field](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".", what...));
  };
  PackingPlan plan;
  plan.num_components = num_components;
  const size_t tuple_bytes = num_components * sizeof(uint32_t);
  const size_t bytes = wire.tuples().size();
  if (tuple_bytes == 0 ? bytes != 0 : bytes % tuple_bytes != 0) {
    return refuse("tuples: ", bytes, " bytes, a tuple of ", num_components, " components takes ",
                  tuple_bytes);
  }
  plan.tuples = Uint32sFromWire(wire.tuples());
  const size_t num_tuples = plan.num_tuples();
  if (num_tuples > kMaxPlannedSizes) {
    return refuse("tuples: ", num_tuples, ", at most ", kMaxPlannedSizes);
  }
  std::vector<uint64_t> used(num_tuples, 0);
  std::vector<uint64_t> rows(num_components + 1);
  for (int p = 0; p < wire.patterns_size(); ++p) {
    const v1::Pattern& from = wire.patterns(p);
    if (from.repeats() == 0) return refuse("patterns[", p, "].repeats: 0, must be at least 1");
    if (from.entries().empty()) return refuse("patterns[", p, "].entries: none");
    Pattern to;
    to.repeats = from.repeats();
    std::fill(rows.begin(), rows.end(), 0);
    for (int e = 0; e < from.entries_size(); ++e) {
      const uint32_t tuple = from.entries(e).tuple();
      const uint32_t copies = from.entries(e).copies();
      if (tuple >= num_tuples) {
        return refuse("patterns[", p, "].entries[", e, "].tuple: ", tuple, ", there are ",
                      num_tuples, " tuples");
      }
      if (copies == 0) {
        return refuse("patterns[", p, "].entries[", e, "].copies: 0, must be at least 1");
      }
      for (size_t k = 0; k <= num_components; ++k) {
        const uint64_t count = k < num_components ? plan.tuple(tuple)[k] : 1;
        // Both are below 2^32.
        const auto sum = CheckedAdd(rows[k], count * copies);
        if (!sum) {
          return refuse("patterns[", p, "]: the rows of component number ", k, " exceed 2^64 - 1");
        }
        rows[k] = *sum;
      }
      const auto graphs = CheckedMultiply(copies, from.repeats());
      const auto sum = graphs ? CheckedAdd(used[tuple], *graphs) : std::nullopt;
      if (!sum) {
        return refuse("patterns[", p, "].repeats: ", from.repeats(), ": the graphs of tuple ",
                      tuple, " exceed 2^64 - 1");
      }
      used[tuple] = *sum;
      to.entries.push_back({tuple, copies});
    }
    plan.patterns.push_back(std::move(to));
  }
  return plan;
}

}  // namespace packhouse
