#include "service/server/wire/wire_tuning.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/wire/wire_planning.h"

namespace packhouse {
namespace {

ComponentProfile ComponentProfileFromWire(const v1::DeviceProfile::Component& wire,
                                          bool is_graphs) {
  ComponentProfile component;
  if (wire.min_rows() != 0) component.min_rows = wire.min_rows();
  component.max_rows = wire.max_rows();
  if (wire.multiple_of() != 0) component.multiple_of = wire.multiple_of();
  component.bytes_per_row = wire.bytes_per_row();
  component.relative_cost = is_graphs ? 0 : 1;
  if (wire.has_relative_cost()) component.relative_cost = wire.relative_cost();
  return component;
}

// Bytes of the cells only: the rest of a result is small.
uint64_t BytesOfCells(const TuneResult& result) {
  uint64_t bytes = 0;
  for (const TuneCell& cell : result.cells) {
    bytes += sizeof(cell) + cell.capacities.capacity() * sizeof(uint64_t);
  }
  return bytes;
}

void CellToWire(const TuneCell& cell, v1::TuneCell& wire) {
  for (const uint64_t capacity : cell.capacities) {
    wire.add_capacities(capacity == kUnlimited ? 0 : capacity);
  }
  wire.set_harmonic_mean(cell.harmonic_mean);
  wire.set_epoch_cost(cell.epoch_cost);
  wire.set_planned(cell.planned);
}

void RecommendationToWire(const TuneResult& result, const SizeSchema& schema,
                          v1::TuneRecommendation& wire) {
  for (const TunedShape& shape : result.shapes) {
    TunedShapeToWire(shape, schema, *wire.add_shapes());
  }
  wire.set_epoch_cost(result.epoch_cost);
  wire.set_least_cost(result.least_cost);
  wire.set_harmonic_mean(result.harmonic_mean);
  wire.set_exact(result.exact);
  for (const std::string& reason : result.reasons) wire.add_reasons(reason);
  if (result.oversize) OversizeToWire(*result.oversize, *wire.mutable_oversize());
  TunedShapeToWire(result.single_shape, schema, *wire.mutable_single_shape());
  TunedShapeToWire(result.cheapest_shape, schema, *wire.mutable_cheapest_shape());
  for (const uint64_t graphs : result.group_graphs) wire.add_group_graphs(graphs);
}

}  // namespace

absl::StatusOr<DeviceProfile> DeviceProfileFromWire(const v1::DeviceProfile& wire,
                                                    const SizeSchema& schema) {
  ComponentProfile unlisted;
  unlisted.relative_cost = 0;
  DeviceProfile profile;
  profile.components.assign(schema.num_components() + 1, unlisted);
  std::vector<bool> listed(profile.components.size(), false);
  for (const v1::DeviceProfile::Component& component : wire.components()) {
    const std::optional<size_t> k = schema.IndexOf(component.component());
    if (!k) {
      return absl::InvalidArgumentError(
          absl::StrCat("profile: unknown component '",
                       absl::CHexEscape(component.component().substr(0, 64)), "'"));
    }
    if (listed[*k]) {
      return absl::InvalidArgumentError(
          absl::StrCat("profile: component '", component.component(), "' is listed twice"));
    }
    listed[*k] = true;
    profile.components[*k] = ComponentProfileFromWire(component, *k == schema.num_components());
  }
  profile.memory_bytes = wire.memory_bytes();
  profile.fixed_bytes = wire.fixed_bytes();
  if (wire.max_distinct_shapes() != 0) profile.max_distinct_shapes = wire.max_distinct_shapes();
  profile.fixed_cost = wire.fixed_cost();
  if (!wire.measured_as().empty()) {
    PH_RETURN_IF_ERROR(ParseMeasuredAs(wire.measured_as()).status());
    profile.measured_as = wire.measured_as();
  }
  PH_RETURN_IF_ERROR(CheckDeviceProfile(profile, schema));
  return profile;
}

absl::StatusOr<DeviceProfile> AsMeasured(const DeviceProfile& profile, const SizeSchema& schema,
                                         const MeasuredModels* models) {
  if (profile.measured_as.empty() || models == nullptr) return profile;
  const std::shared_ptr<const MeasuredModel> model = models->Find(profile.measured_as);
  if (model == nullptr) return profile;
  std::optional<DeviceProfile> measured = WithMeasured(profile, schema, *model);
  if (!measured) return profile;
  PH_RETURN_IF_ERROR(CheckDeviceProfile(*measured, schema));
  return *std::move(measured);
}

absl::StatusOr<DeviceProfile> PaddedProfileFromWire(const v1::TuneRequest& request,
                                                    const SizeSchema& schema,
                                                    uint64_t max_graphs_per_batch,
                                                    const MeasuredModels* models) {
  PH_ASSIGN_OR_RETURN(DeviceProfile profile, DeviceProfileFromWire(request.profile(), schema));
  PH_ASSIGN_OR_RETURN(profile, AsMeasured(profile, schema, models));
  PH_ASSIGN_OR_RETURN(const Padding padding, PaddingFromWire(request.padding()));
  PH_ASSIGN_OR_RETURN(const GraphSchema graphs, SchemaOfTargets(schema, request.index_targets(),
                                                                request.ragged_components()));
  return ProfileForPadding(std::move(profile), graphs, padding, max_graphs_per_batch);
}

absl::StatusOr<TuneOptions> TuneOptionsFromWire(const v1::TuneRequest& request) {
  TuneOptions options;
  switch (request.objective()) {
    case v1::TUNE_OBJECTIVE_UNSPECIFIED:
    case v1::TUNE_OBJECTIVE_EPOCH_COST:
      options.objective = TuneObjective::kEpochCost;
      break;
    case v1::TUNE_OBJECTIVE_HARMONIC_MEAN:
      options.objective = TuneObjective::kHarmonicMean;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("objective: unknown value ", static_cast<int>(request.objective())));
  }
  PH_ASSIGN_OR_RETURN(options.steps,
                      BudgetFromWire(request.budget_steps(), TuneOptions::kDefaultSteps));
  options.seed = request.seed();
  options.include_grid = request.include_grid();
  return options;
}

void OversizeToWire(const OversizeGraphs& oversize, v1::Oversize& wire) {
  wire.set_num_graphs(oversize.num_graphs);
  for (const uint32_t count : oversize.largest) wire.add_largest(count);
  for (const uint64_t rows : oversize.needed_rows) wire.add_needed_rows(rows);
  wire.set_num_apart(oversize.num_apart);
  wire.set_needed_bytes(oversize.needed_bytes);
  wire.set_num_shapes(oversize.num_shapes);
}

void TunedShapeToWire(const TunedShape& shape, const SizeSchema& schema, v1::TunedShape& wire) {
  CapacitiesToWire(shape.capacities, schema, *wire.mutable_limits());
  wire.set_packs(shape.packs);
  wire.set_lower_bound(shape.lower_bound);
  wire.set_epoch_cost(shape.epoch_cost);
  wire.set_harmonic_mean(shape.harmonic_mean);
  EfficienciesToWire(shape.components, schema, *wire.mutable_components());
  wire.set_batch_bytes(shape.batch_bytes);
}

void TuneProgressToWire(const TuneProgress& progress, const SizeSchema& schema,
                        v1::TuneProgress& wire) {
  wire.Clear();
  wire.set_candidates(progress.candidates);
  wire.set_planned(progress.planned);
  wire.set_excluded(progress.excluded);
  if (progress.incumbent != nullptr) {
    TunedShapeToWire(*progress.incumbent, schema, *wire.mutable_incumbent());
  }
}

absl::StatusOr<std::unique_ptr<TuneAnswers>> TuneAnswers::Create(TuneResult result,
                                                                 SizeSchema schema,
                                                                 ByteQuota* quota) {
  const uint64_t bytes = BytesOfCells(result);
  if (!quota->TryTake(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "include_grid: ", result.cells.size(), " cells take ", bytes, " bytes, and of the ",
        quota->bound(), " that all streams share ", quota->held(), " are held"));
  }
  return std::unique_ptr<TuneAnswers>(
      new TuneAnswers(std::move(result), std::move(schema), quota, bytes));
}

TuneAnswers::TuneAnswers(TuneResult result, SizeSchema schema, ByteQuota* quota,
                         uint64_t held_bytes)
    : result_(std::move(result)),
      schema_(std::move(schema)),
      quota_(quota),
      held_bytes_(held_bytes) {}

TuneAnswers::~TuneAnswers() { quota_->Give(held_bytes_); }

void TuneAnswers::DropCells() {
  result_.cells = std::vector<TuneCell>();
  next_cell_ = 0;
  quota_->Give(std::exchange(held_bytes_, 0));
}

absl::StatusOr<std::optional<v1::TuneResponse>> TuneAnswers::Next() {
  if (recommended_) return std::nullopt;
  v1::TuneResponse response;
  if (next_cell_ < result_.cells.size()) {
    CellToWire(result_.cells[next_cell_++], *response.mutable_cell());
    if (next_cell_ == result_.cells.size()) DropCells();
  } else if (next_frontier_ < result_.frontier.size()) {
    TunedShapeToWire(result_.frontier[next_frontier_++], schema_, *response.mutable_frontier());
  } else {
    recommended_ = true;
    RecommendationToWire(result_, schema_, *response.mutable_recommendation());
  }
  return response;
}

}  // namespace packhouse
