#include "service/engine/epochs/pattern_planning.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/algorithms/planning/tuning/shape_sets.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/planning_room.h"
#include "service/engine/epochs/round_plan.h"

namespace packhouse {
namespace {

absl::Status PlanOneShape(const SizeHistogram& histogram, const Limits& limits,
                          const OptimizerOptions& options, PlannerResult& result) {
  PH_ASSIGN_OR_RETURN(CertifiedPlan plan, OptimizePlan(histogram, limits, options));
  result.lower_bound = plan.bound.packs;
  result.patterns.push_back(std::move(plan.plan.patterns));
  return absl::OkStatus();
}

absl::Status PlanSeveralShapes(const SizeHistogram& histogram, absl::Span<const Limits> limits,
                               const OptimizerOptions& options, PlannerResult& result) {
  std::vector<std::vector<uint64_t>> shapes;
  for (const Limits& shape : limits) {
    shapes.emplace_back(shape.capacities().begin(), shape.capacities().end());
  }
  WorkBudget budget(options.steps * shapes.size(), options.is_cancelled, options.memory);
  PH_ASSIGN_OR_RETURN(std::vector<ShapePacks> packs,
                      PlanForShapes(histogram, shapes, options, budget));
  result.patterns.emplace_back();
  for (ShapePacks& of_shape : packs) {
    std::move(of_shape.plan.patterns.begin(), of_shape.plan.patterns.end(),
              std::back_inserter(result.patterns[0]));
  }
  return absl::OkStatus();
}

absl::Status PlanSeveralRankGroups(const SizeHistogram& histogram, const ShapeLimits& limits,
                                   absl::Span<const uint32_t> num_ranks,
                                   const OptimizerOptions& options, PlannerResult& result) {
  std::vector<RankGroup> rank_groups;
  for (size_t i = 0; i < limits.size(); ++i) rank_groups.push_back({limits[i][0], num_ranks[i]});
  PH_ASSIGN_OR_RETURN(RoundPlan plan, PlanRounds(histogram, rank_groups, options));
  result.patterns = std::move(plan.patterns_by_rank_group);
  return absl::OkStatus();
}

absl::Status LossOf(const PlannerResult& given, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("plan ", given.receipt, ": ", why));
}

// Plans in the room's memory; `result` gets receipt, bound and patterns.
absl::Status PlanIn(PlanningRoom& room, const SizeHistogram& histogram, const ShapeLimits& limits,
                    absl::Span<const uint32_t> num_ranks, std::optional<uint64_t> steps,
                    const Making& making, PlannerResult& result) {
  OptimizerOptions options;
  options.is_cancelled = making.is_cancelled();
  options.memory = room.memory();
  options.steps = steps.value_or(0);
  for (const std::vector<Limits>& shapes : limits) {
    for (const Limits& shape : shapes) {
      if (steps) break;
      options.steps = std::max(options.steps, OptimizerOptions::StepsFor(histogram, shape));
    }
  }
  for (const std::vector<Limits>& shapes : limits) {
    for (const Limits& shape : shapes) {
      absl::StrAppend(&result.receipt, result.receipt.empty() ? "" : "+",
                      PlanReceipt(histogram, shape, options));
    }
  }
  absl::Status status;
  if (limits.size() > 1) {
    status = PlanSeveralRankGroups(histogram, limits, num_ranks, options, result);
  } else if (limits[0].size() > 1) {
    status = PlanSeveralShapes(histogram, limits[0], options, result);
  } else {
    status = PlanOneShape(histogram, limits[0][0], options, result);
  }
  return status.ok() ? status : room.Reason(status);
}

}  // namespace

absl::StatusOr<MemoryHold> PlanPatterns(const SizeClasses& classes, const ShapeLimits& limits,
                                        absl::Span<const uint32_t> num_ranks,
                                        std::optional<uint64_t> steps, const Making& making,
                                        PlannerResult& result) {
  PlanningRoom room(making, classes.num_classes(), classes.num_components());
  PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldPlans(limits.size() + limits[0].size() - 1));
  {
    // Gone before the room for it is given back.
    PH_ASSIGN_OR_RETURN(const SizeHistogram histogram, classes.Histogram(making));
    PH_RETURN_IF_ERROR(PlanIn(room, histogram, limits, num_ranks, steps, making, result));
  }
  const absl::Span<const uint32_t> tuples = classes.tuples();
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      room.Keep(result.Bytes() + sizeof(uint32_t) * tuples.size()));
  result.num_components = classes.num_components();
  result.tuples.assign(tuples.begin(), tuples.end());
  return memory;
}

absl::StatusOr<MemoryHold> PlanHistogram(const SizeHistogram& histogram, const ShapeLimits& limits,
                                         absl::Span<const uint32_t> num_ranks,
                                         std::optional<uint64_t> steps, const Making& making,
                                         PlannerResult& result) {
  PlanningRoom room(making, histogram.num_distinct(), histogram.num_components());
  PH_RETURN_IF_ERROR(room.HoldPlans(limits.size() + limits[0].size() - 1));
  PH_RETURN_IF_ERROR(PlanIn(room, histogram, limits, num_ranks, steps, making, result));
  const size_t l = histogram.num_components();
  PH_ASSIGN_OR_RETURN(MemoryHold memory, room.Keep(result.Bytes() + sizeof(uint32_t) * (l + 1) *
                                                                        histogram.num_distinct()));
  result.num_components = l;
  result.tuples.reserve(l * histogram.num_distinct());
  for (const uint32_t row : histogram.SortedRows()) {
    const absl::Span<const uint32_t> tuple = histogram.tuple(row);
    result.tuples.insert(result.tuples.end(), tuple.begin(), tuple.end());
  }
  return memory;
}

absl::Status CheckGiven(const PlannerResult& given, const SizeClasses& classes,
                        const ShapeLimits& limits, const Making& making) {
  if (given.num_components != classes.num_components() ||
      absl::MakeConstSpan(given.tuples) != classes.tuples()) {
    return LossOf(given, "is for other sizes than these graphs have");
  }
  if (given.patterns.size() != limits.size()) {
    return LossOf(given, absl::StrCat("has patterns for ", given.patterns.size(),
                                      " rank groups, there are ", limits.size()));
  }
  PH_ASSIGN_OR_RETURN(const MemoryHold checking,
                      making.Hold(absl::StrCat("a plan for ", classes.num_classes(), " sizes"),
                                  sizeof(uint64_t) * classes.num_classes()));
  const absl::Status uses_up = CheckUsesUp(classes, given.patterns, making);
  if (absl::IsInvalidArgument(uses_up)) return LossOf(given, uses_up.message());
  PH_RETURN_IF_ERROR(uses_up);
  size_t num_entries = 0;
  std::vector<uint64_t> rows(classes.num_components() + 1);
  for (size_t group = 0; group < limits.size(); ++group) {
    const Limits& first = limits[group][0];
    for (const Pattern& pattern : given.patterns[group]) {
      // No sum wraps around: all items together have fewer than 2^64 rows.
      std::fill(rows.begin(), rows.end(), 0);
      for (const auto& [tuple, copies] : pattern.entries) {
        PH_RETURN_IF_ERROR(making.StillWantedAt(num_entries++));
        AddRows(classes.tuple(tuple), copies, absl::MakeSpan(rows));
      }
      const bool fits =
          std::any_of(limits[group].begin(), limits[group].end(),
                      [&](const Limits& shape) { return ShapeTakes(shape.capacities(), rows); });
      for (size_t k = 0; !fits && k < rows.size(); ++k) {
        if (rows[k] <= first.capacity(k)) continue;
        return LossOf(given, absl::StrCat("a batch of it has ", rows[k], " rows of component ", k,
                                          ", at most ", first.capacity(k), " fit",
                                          limits[group].size() == 1 ? "" : " the first shape"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse
