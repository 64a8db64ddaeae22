#include "service/epochs/epoch_shapes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/epochs/planning_room.h"
#include "service/epochs/size_classes.h"
#include "service/planning/tuning/limit_tuner.h"

namespace packhouse {
namespace {

// OK if no shape exceeds the first one.
absl::Status CheckLargestFirst(const std::vector<BatchShape>& shapes, const SizeSchema& schema) {
  for (size_t i = 1; i < shapes.size(); ++i) {
    for (size_t k = 0; k < shapes[0].capacities.size(); ++k) {
      if (shapes[i].capacities[k] <= shapes[0].capacities[k]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "shapes: shape ", i, " has ", shapes[i].capacities[k], " rows of '", schema.name(k),
          "', the first, which must be the largest, has ", shapes[0].capacities[k]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<uint64_t>>> TuneShapes(const DeviceProfile& device,
                                                              const GraphSchema& schema,
                                                              const SizeClasses& classes,
                                                              const Making& making) {
  PlanningRoom room(making, classes.num_classes(), classes.num_components());
  PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldTuning());
  PH_ASSIGN_OR_RETURN(const SizeHistogram histogram, classes.Histogram(making));
  TuneOptions tuning;
  tuning.given_up = making.given_up();
  tuning.memory = room.memory();
  const absl::StatusOr<TuneResult> tuned = TuneLimits(histogram, device, schema.sizes(), tuning);
  if (!tuned.ok()) return room.Reason(tuned.status());
  std::vector<std::vector<uint64_t>> capacities;
  for (const TunedShape& shape : tuned->shapes) capacities.push_back(shape.capacities);
  return capacities;
}

}  // namespace

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
    capacities.emplace_back();
    for (const BatchShape& shape : shapes) capacities.back().push_back(shape.capacities);
  }
  return capacities;
}

absl::StatusOr<EpochShapes> ChooseShapes(absl::Span<const RankGroupRequest> rank_groups,
                                         const GraphSchema& schema,
                                         const BatchShapeOptions& options, const ItemSizes& sizes,
                                         std::optional<absl::Span<const uint32_t>> selection,
                                         const Making& making) {
  EpochShapes chosen;
  for (const RankGroupRequest& rank_group : rank_groups) {
    std::vector<std::vector<uint64_t>> capacities = rank_group.shapes;
    if (rank_group.device) {
      PH_ASSIGN_OR_RETURN(const SizeClasses classes, SizeClasses::Create(sizes, selection, making));
      PH_ASSIGN_OR_RETURN(DeviceProfile device,
                          ProfileForPadding(*rank_group.device, schema, options.padding,
                                            options.max_graphs_per_batch));
      if (rank_groups.size() > 1) device.max_distinct_shapes = 1;
      PH_ASSIGN_OR_RETURN(capacities, TuneShapes(device, schema, classes, making));
    }
    PH_RETURN_IF_ERROR(chosen.AddRankGroup(schema, capacities, options));
  }
  return chosen;
}

}  // namespace packhouse
