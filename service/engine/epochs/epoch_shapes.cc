#include "service/engine/epochs/epoch_shapes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/algorithms/planning/tuning/limit_tuner.h"
#include "service/algorithms/planning/tuning/shape_sets.h"
#include "service/algorithms/planning/work_budget.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/planning_room.h"

namespace packhouse {
namespace {

std::vector<std::vector<uint64_t>> CapacitiesOf(absl::Span<const BatchShape> shapes) {
  std::vector<std::vector<uint64_t>> capacities;
  for (const BatchShape& shape : shapes) capacities.push_back(shape.capacities);
  return capacities;
}

// OK if no shape takes all that an earlier one takes, which no batch would then have. Equal ones,
// and several in any order that a shape before them takes, are harmless.
absl::Status CheckLargestFirst(const std::vector<BatchShape>& shapes, const SizeSchema& schema) {
  const std::vector<size_t> leading = LeadingShapes(CapacitiesOf(shapes));
  for (const size_t i : leading) {
    for (const size_t j : leading) {
      if (j >= i) break;
      const std::vector<uint64_t>& later = shapes[i].capacities;
      const std::vector<uint64_t>& earlier = shapes[j].capacities;
      if (!ShapeTakes(later, earlier)) continue;
      size_t k = 0;
      while (later[k] <= earlier[k]) ++k;
      return absl::InvalidArgumentError(absl::StrCat(
          "shapes: shape ", i, " takes all that shape ", j, " takes, and has ", later[k],
          " rows of '", schema.name(k), "' where that has ", earlier[k],
          ": the larger one must come first, since a batch gets the last shape that takes it"));
    }
  }
  return absl::OkStatus();
}

using Shapes = std::vector<std::vector<uint64_t>>;

// Better limits save at least this share of an epoch's cost: trainers compile anew for each shape.
constexpr double kLeastSaving = 0.02;
// For a plan that is only compared.
constexpr uint64_t kComparisonSteps = 50'000'000;

// What an epoch of the shapes costs on the device; nullopt if they do not fit its memory, or leave
// out graphs that others would take.
absl::StatusOr<std::optional<double>> CostOfShapes(const Shapes& shapes,
                                                   const DeviceProfile& device,
                                                   const SizeHistogram& histogram,
                                                   uint64_t num_oversize, const Making& making,
                                                   PlanMemory* memory) {
  Shapes usable = shapes;
  for (std::vector<uint64_t>& shape : usable) {
    if (shape.size() != device.components.size()) return std::nullopt;
    for (size_t k = 0; k < shape.size(); ++k) {
      const uint64_t reserved = device.components[k].reserved_rows;
      if (shape[k] != kUnlimited) shape[k] -= std::min(shape[k], reserved);
    }
    if (!FitsMemory(device, shape)) return std::nullopt;
  }
  SizeHistogram fitting(histogram.num_components());
  std::vector<Limits> limits;
  for (const size_t leader : LeadingShapes(usable)) {
    PH_ASSIGN_OR_RETURN(Limits of_leader, Limits::Create(usable[leader]));
    limits.push_back(std::move(of_leader));
  }
  for (size_t row = 0; row < histogram.num_distinct(); ++row) {
    if (std::all_of(limits.begin(), limits.end(), [&](const Limits& shape) {
          return shape.FirstExceeded(histogram.tuple(row)).has_value();
        })) {
      continue;
    }
    PH_RETURN_IF_ERROR(fitting.Add(histogram.tuple(row), histogram.count(row)));
  }
  if (fitting.num_graphs() + num_oversize < histogram.num_graphs()) return std::nullopt;
  OptimizerOptions options;
  options.steps = kComparisonSteps;
  options.is_cancelled = making.is_cancelled();
  options.memory = memory;
  WorkBudget budget(4 * kComparisonSteps, making.is_cancelled(), memory);
  PH_ASSIGN_OR_RETURN(const std::vector<ShapePacks> packs,
                      PlanForShapes(fitting, usable, options, budget));
  return CostOfShapePacks(device, packs);
}

// The best shapes for the device, or `present` if they are about as good; then they are not empty.
absl::StatusOr<Shapes> TuneShapes(const DeviceProfile& device, const Shapes& present,
                                  const GraphSchema& schema, const SizeHistogram& histogram,
                                  const Making& making, std::string& why) {
  PlanningRoom room(making, histogram.num_distinct(), histogram.num_components());
  PH_RETURN_IF_ERROR(room.HoldTuning());
  TuneOptions tuning;
  tuning.is_cancelled = making.is_cancelled();
  tuning.memory = room.memory();
  const absl::StatusOr<TuneResult> tuned = TuneLimits(histogram, device, schema.sizes(), tuning);
  if (!tuned.ok()) return room.Reason(tuned.status());
  Shapes capacities;
  for (const TunedShape& shape : tuned->shapes) capacities.push_back(shape.capacities);
  if (present.empty() || capacities == present) return capacities;
  PH_ASSIGN_OR_RETURN(
      const std::optional<double> cost,
      CostOfShapes(present, device, histogram, tuned->oversize ? tuned->oversize->num_graphs : 0,
                   making, room.memory()));
  if (!cost) {
    why = absl::StrCat("the limits before no longer fit what was measured as ", device.measured_as);
    return capacities;
  }
  const double saving = 1 - tuned->epoch_cost / *cost;
  why = absl::StrFormat("others save %.2g %% of an epoch's %.4g s, as %s was measured",
                        100 * std::max(saving, 0.0), *cost, device.measured_as);
  return saving >= kLeastSaving ? capacities : present;
}

}  // namespace

std::vector<uint64_t> RealRowsOf(const BatchShape& shape, absl::Span<const uint64_t> packed) {
  const MinRows& min_rows = shape.layout.min_rows();
  std::vector<uint64_t> rows(packed.begin(), packed.end());
  for (size_t k = 0; k < rows.size(); ++k) {
    rows[k] = min_rows.RealRows(k, packed[k], packed.back());
  }
  return rows;
}

uint64_t BatchBytesOf(const BatchShape& shape, absl::Span<const uint64_t> rows) {
  return shape.layout.BatchBytes(shape.layout.RowsFor(rows)).value_or(UINT64_MAX);
}

absl::Status EpochShapes::AddRankGroup(const GraphSchema& schema,
                                       const std::vector<std::vector<uint64_t>>& shapes,
                                       const BatchShapeOptions& options) {
  std::vector<BatchShape> resolved;
  for (const std::vector<uint64_t>& capacities : shapes) {
    PH_ASSIGN_OR_RETURN(BatchShape shape, BatchShape::Resolve(schema, capacities, options));
    resolved.push_back(std::move(shape));
  }
  PH_RETURN_IF_ERROR(CheckLargestFirst(resolved, schema.sizes()));
  by_rank_group_.push_back(std::move(resolved));
  return absl::OkStatus();
}

size_t EpochShapes::num_shapes() const {
  size_t sum = 0;
  for (const std::vector<BatchShape>& shapes : by_rank_group_) sum += shapes.size();
  return sum;
}

size_t EpochShapes::ShapeFor(size_t rank_group, absl::Span<const uint64_t> rows) const {
  size_t shape = by_rank_group_[rank_group].size() - 1;
  while (shape > 0 && !by_rank_group_[rank_group][shape].Takes(rows)) --shape;
  return shape;
}

std::vector<std::vector<Limits>> EpochShapes::Packed() const {
  std::vector<std::vector<Limits>> limits;
  for (const std::vector<BatchShape>& shapes : by_rank_group_) {
    limits.emplace_back();
    for (const BatchShape& shape : shapes) limits.back().push_back(shape.packed);
  }
  return limits;
}

std::vector<std::vector<std::vector<uint64_t>>> EpochShapes::Capacities() const {
  std::vector<std::vector<std::vector<uint64_t>>> capacities;
  for (const std::vector<BatchShape>& shapes : by_rank_group_) {
    capacities.push_back(CapacitiesOf(shapes));
  }
  return capacities;
}

std::vector<const BatchShape*> EpochShapes::Leading() const {
  std::vector<const BatchShape*> leading;
  for (const std::vector<BatchShape>& shapes : by_rank_group_) {
    for (const size_t leader : LeadingShapes(CapacitiesOf(shapes))) {
      leading.push_back(&shapes[leader]);
    }
  }
  return leading;
}

absl::StatusOr<EpochShapes> ChooseShapes(absl::Span<const RankGroupRequest> rank_groups,
                                         bool adaptive, const GraphSchema& schema,
                                         const BatchShapeOptions& options,
                                         absl::FunctionRef<absl::StatusOr<HeldSizes>()> sizes,
                                         const Making& making) {
  EpochShapes chosen;
  std::optional<HeldSizes> held;
  for (const RankGroupRequest& rank_group : rank_groups) {
    std::vector<std::vector<uint64_t>> capacities = rank_group.shapes;
    const bool stays = !rank_group.present.empty() && (!adaptive || !rank_group.measured);
    if (rank_group.device && stays) {
      capacities = rank_group.present;
    } else if (rank_group.device) {
      if (!held) {
        PH_ASSIGN_OR_RETURN(held, sizes());
      }
      PH_ASSIGN_OR_RETURN(DeviceProfile device,
                          ProfileForPadding(rank_group.measured.value_or(*rank_group.device),
                                            schema, options.padding, options.max_graphs_per_batch));
      if (rank_groups.size() > 1) device.max_distinct_shapes = 1;
      std::string why;
      PH_ASSIGN_OR_RETURN(capacities,
                          TuneShapes(device, rank_group.present, schema, held->sizes, making, why));
      if (!why.empty()) chosen.SetWhy(std::move(why));
    }
    PH_RETURN_IF_ERROR(chosen.AddRankGroup(schema, capacities, options));
  }
  return chosen;
}

}  // namespace packhouse
