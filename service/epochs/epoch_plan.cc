#include "service/epochs/epoch_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/collation/collate.h"
#include "service/epochs/planning_room.h"
#include "service/epochs/round_plan.h"
#include "service/epochs/selection.h"
#include "service/packing/online_packer.h"
#include "service/planning/limits.h"
#include "service/planning/optimizer/plan_optimizer.h"
#include "service/planning/tuning/limit_tuner.h"
#include "service/planning/tuning/shape_sets.h"
#include "service/planning/work_budget.h"

namespace packhouse {
namespace {

// Of the rules by which batches are drawn and packed in order; part of an epoch's identity, so that
// another release never goes on with other batches.
constexpr absl::string_view kRulesVersion = "v1";

absl::Status Exclude(bool both, absl::string_view a, absl::string_view b) {
  if (!both) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(a, ": not together with ", b));
}

// OK if the first shape takes whatever the others take.
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

}  // namespace

ItemSizes EpochPlan::GraphSizes() const {
  return ItemSizes::Create(reader_->num_graphs(), schema().num_components(), reader_->counts())
      .value();
}

absl::Status EpochPlan::CheckRequest(const EpochRequest& request) const {
  const DatasetInfo& info = dataset();
  if (info.state != DatasetState::kSealed) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set '", info.name, "' is not sealed: epochs are loaded from sealed ones"));
  }
  if (request.grouped && !info.options.grouped) {
    return absl::FailedPreconditionError(
        absl::StrCat("grouped: the graphs of data set '", info.name, "' have no group ids"));
  }
  if (info.num_graphs > ItemSizes::kMaxItems) {
    return absl::FailedPreconditionError(absl::StrCat("data set '", info.name,
                                                      "': ", info.num_graphs,
                                                      " graphs, an epoch takes at "
                                                      "most ",
                                                      ItemSizes::kMaxItems));
  }
  const size_t rank_groups = request.rank_groups.size();
  if (rank_groups == 0 || rank_groups > RoundPlan::kMaxRankGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank_groups: ", rank_groups, ", must be 1 to ", RoundPlan::kMaxRankGroups));
  }
  bool several_shapes = rank_groups > 1;
  for (size_t i = 0; i < rank_groups; ++i) {
    const RankGroupRequest& rank_group = request.rank_groups[i];
    if (rank_group.device.has_value() == !rank_group.shapes.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("profiles: number ", i, " must have either shapes or a device profile"));
    }
    if (rank_group.shapes.size() > (rank_groups > 1 ? 1 : kMaxShapes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank_groups: number ", i, " has ", rank_group.shapes.size(),
                       " shapes, at most ", rank_groups > 1 ? 1 : kMaxShapes,
                       rank_groups > 1 ? " if there are several rank groups" : ""));
    }
    if (rank_groups > 1 && rank_group.num_ranks == 0) {
      return absl::InvalidArgumentError(absl::StrCat("rank_groups: number ", i, " has 0 ranks"));
    }
    several_shapes |= rank_group.shapes.size() > 1 ||
                      (rank_group.device && rank_group.device->max_distinct_shapes > 1);
    PH_RETURN_IF_ERROR(Exclude(request.grouped && rank_group.device.has_value(), "grouped",
                               "a device profile: name the limits"));
  }
  PH_RETURN_IF_ERROR(Exclude(request.in_order && several_shapes, "in_order", "several shapes"));
  PH_RETURN_IF_ERROR(Exclude(request.grouped && several_shapes, "grouped", "several shapes"));
  PH_RETURN_IF_ERROR(Exclude(request.in_order && request.grouped, "in_order", "grouped"));
  PH_RETURN_IF_ERROR(Exclude(request.in_order && request.draw.has_value(), "in_order", "draw"));
  return Exclude(request.grouped && request.draw.has_value(), "grouped", "draw");
}

absl::StatusOr<std::vector<uint32_t>> EpochPlan::Positions(const SubsetRequest& subset,
                                                           const Making& making) const {
  // Two sets of ids, of which an eighth at least is free, and the ranges once more.
  constexpr uint64_t kBytesOfId = 2 * 3 * (sizeof(uint64_t) + 1);
  PH_ASSIGN_OR_RETURN(
      const MemoryHold searching,
      making.Hold(absl::StrCat("a subset of ", subset.ids.size(), " ids and ", subset.ranges.size(),
                               " ranges"),
                  kBytesOfId * subset.ids.size() + 2 * sizeof(uint64_t) * subset.ranges.size()));
  absl::flat_hash_set<uint64_t> ids;
  ids.reserve(subset.ids.size());
  for (size_t i = 0; i < subset.ids.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint64_t id = subset.ids[i];
    if (ids.insert(id).second) continue;
    return absl::InvalidArgumentError(absl::StrCat("subset: graph id ", id, " is listed twice"));
  }
  // Ascending, and each ends where it meets the next.
  std::vector<std::pair<uint64_t, uint64_t>> ranges = subset.ranges;
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 0; i < ranges.size(); ++i) {
    const auto [first, count] = ranges[i];
    if (count == 0 || count - 1 > std::numeric_limits<uint64_t>::max() - first ||
        (i > 0 && ranges[i - 1].first + (ranges[i - 1].second - 1) >= first)) {
      return absl::InvalidArgumentError(
          absl::StrCat("subset: range of ", count, " ids from ", first,
                       " is empty, exceeds 64 bits or overlaps another"));
    }
  }
  const auto in_range = [&ranges](uint64_t id) {
    auto after = std::upper_bound(ranges.begin(), ranges.end(),
                                  std::make_pair(id, std::numeric_limits<uint64_t>::max()));
    return after != ranges.begin() && id - (after - 1)->first < (after - 1)->second;
  };
  const absl::Span<const uint64_t> all = reader_->graph_ids();
  std::vector<uint32_t> positions;
  positions.reserve(all.size());
  absl::flat_hash_set<uint64_t> found;
  found.reserve(ids.size());
  for (size_t i = 0; i < all.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const bool listed = ids.contains(all[i]);
    if (listed) found.insert(all[i]);
    if (listed || in_range(all[i])) positions.push_back(static_cast<uint32_t>(i));
  }
  if (found.size() == ids.size()) return positions;
  for (const uint64_t id : subset.ids) {
    if (found.contains(id)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("subset: data set '", dataset().name, "' has no graph with id ", id));
  }
  return absl::InternalError("subset: an id is neither found nor missing");
}

absl::Status EpochPlan::CheckReadable(const std::optional<std::vector<uint32_t>>& selection) const {
  for (const DamagedRecord& damaged : reader_->unreadable()) {
    bool needed = true;
    if (selection) {
      const auto first =
          std::lower_bound(selection->begin(), selection->end(), damaged.first_graph);
      needed = first != selection->end() && *first < damaged.first_graph + damaged.num_graphs;
    }
    if (needed) return damaged.status;
  }
  return absl::OkStatus();
}

absl::Status EpochPlan::ChooseShapes(const EpochRequest& request, const EpochBounds& bounds,
                                     const std::optional<std::vector<uint32_t>>& selection,
                                     const Making& making) {
  const BatchShapeOptions options = {request.padding, request.derived, request.whole_graphs,
                                     bounds.max_graphs_per_batch, bounds.max_batch_bytes};
  for (const RankGroupRequest& rank_group : request.rank_groups) {
    std::vector<std::vector<uint64_t>> capacities = rank_group.shapes;
    if (rank_group.device) {
      PH_ASSIGN_OR_RETURN(SizeClasses classes,
                          SizeClasses::Create(GraphSizes(), selection, making));
      PlanningRoom room(making, classes.num_classes(), classes.num_components());
      PH_RETURN_IF_ERROR(room.HoldHistogram());
      PH_RETURN_IF_ERROR(room.HoldTuning());
      PH_ASSIGN_OR_RETURN(const SizeHistogram histogram, classes.Histogram(making));
      PH_ASSIGN_OR_RETURN(DeviceProfile device,
                          ProfileForPadding(*rank_group.device, schema(), request.padding,
                                            bounds.max_graphs_per_batch));
      if (request.rank_groups.size() > 1) device.max_distinct_shapes = 1;
      TuneOptions tuning;
      tuning.given_up = making.given_up();
      tuning.memory = room.memory();
      const absl::StatusOr<TuneResult> tuned =
          TuneLimits(histogram, device, schema().sizes(), tuning);
      if (!tuned.ok()) return room.Reason(tuned.status());
      for (const TunedShape& shape : tuned->shapes) capacities.push_back(shape.capacities);
    }
    std::vector<BatchShape> shapes;
    for (const std::vector<uint64_t>& one : capacities) {
      PH_ASSIGN_OR_RETURN(BatchShape shape, BatchShape::Resolve(schema(), one, options));
      shapes.push_back(std::move(shape));
    }
    PH_RETURN_IF_ERROR(CheckLargestFirst(shapes, schema().sizes()));
    summaries_.emplace_back(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      for (const uint64_t capacity : shapes[i].capacities) {
        summaries_.back()[i].components.push_back({capacity, 0, 0, 0});
      }
    }
    shapes_.push_back(std::move(shapes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> EpochPlan::Sample(const EpochRequest& request,
                                                        const DrawRequest& draw,
                                                        absl::Span<const uint32_t> fitting,
                                                        const std::vector<uint32_t>& weights,
                                                        const Making& making) const {
  const EpochSeed seed = {request.seed, request.key.epoch};
  std::vector<uint32_t> drawn;
  if (draw.with_replacement) {
    PH_ASSIGN_OR_RETURN(const WeightedSampler sampler, WeightedSampler::Create(weights, making));
    const uint64_t count = draw.num_graphs != 0 ? draw.num_graphs : fitting.size();
    PH_ASSIGN_OR_RETURN(drawn, sampler.Draw(count, seed, making));
  } else {
    const auto positive = static_cast<uint64_t>(
        weights.size() - std::count(weights.begin(), weights.end(), uint32_t{0}));
    const uint64_t count = draw.num_graphs != 0 ? draw.num_graphs : positive;
    PH_ASSIGN_OR_RETURN(drawn, SampleWithoutReplacement(weights, count, seed, making));
  }
  for (size_t i = 0; i < drawn.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    drawn[i] = fitting[drawn[i]];
  }
  return drawn;
}

absl::Status EpochPlan::Select(const EpochRequest& request,
                               const std::optional<std::vector<uint32_t>>& selection,
                               const Making& making, std::vector<uint32_t>& items,
                               MemoryHold& held) {
  const auto refuse = [&](absl::string_view what, const OversizeItem& item) {
    return absl::OutOfRangeError(absl::StrCat(what, " ", item.id, ": ", item.value, " rows of '",
                                              schema().sizes().name(item.component), "', at most ",
                                              item.bound, " fit a batch"));
  };
  if (request.grouped) {
    PH_ASSIGN_OR_RETURN(groups_,
                        GroupItems::Create(GraphSizes(), reader_->group_ids(), shapes_[0][0].usable,
                                           selection, kMaxListedOversize, making));
    for (const GroupRejection& rejected : groups_->rejected()) {
      const OversizeItem item = {rejected.group_id, rejected.component, rejected.value,
                                 rejected.bound};
      if (request.oversize_is_error) return refuse("group", item);
      oversize_.push_back(item);
    }
    num_oversize_ = groups_->num_rejected_graphs();
    PH_ASSIGN_OR_RETURN(held, making.Hold(absl::StrCat(groups_->num_groups(), " groups of graphs"),
                                          sizeof(uint32_t) * groups_->num_groups()));
    items.resize(groups_->num_groups());
    for (size_t i = 0; i < items.size(); ++i) items[i] = static_cast<uint32_t>(i);
    return absl::OkStatus();
  }
  std::vector<Limits> limits;
  for (const std::vector<BatchShape>& shapes : shapes_) limits.push_back(shapes[0].usable);
  const size_t n = selection ? selection->size() : reader_->num_graphs();
  PH_ASSIGN_OR_RETURN(held,
                      making.Hold(absl::StrCat(n, " graphs to choose from"), sizeof(uint32_t) * n));
  PH_ASSIGN_OR_RETURN(FittingItems fitting,
                      ItemsThatFit(GraphSizes(), selection, limits, kMaxListedOversize, making));
  for (const ItemRejection& rejected : fitting.rejected) {
    const OversizeItem item = {reader_->graph_ids()[rejected.item], rejected.component,
                               rejected.value, rejected.bound};
    if (request.oversize_is_error) return refuse("graph", item);
    oversize_.push_back(item);
  }
  num_oversize_ = fitting.num_rejected;
  items = std::move(fitting.items);
  if (!request.draw) return absl::OkStatus();

  const DrawRequest& draw = *request.draw;
  const uint64_t count = draw.num_graphs != 0 ? draw.num_graphs : items.size();
  const std::string what = absl::StrCat("draw: num_graphs ", count);
  if (count > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(absl::StrCat(what, ", at most ", ItemSizes::kMaxItems));
  }
  // Without replacement there are no more than these, or it is refused.
  const uint64_t most = draw.with_replacement ? count : std::min<uint64_t>(count, items.size());
  PH_ASSIGN_OR_RETURN(MemoryHold drawn, making.Hold(what, sizeof(uint32_t) * most));
  PH_ASSIGN_OR_RETURN(const MemoryHold drawing,
                      making.Hold(absl::StrCat("draw from ", n, " graphs"),
                                  (kSamplingBytes + 2 * sizeof(uint32_t)) * n));
  std::vector<uint32_t> weights(items.size(), 1);
  if (!draw.weights.empty()) {
    if (draw.weights.size() != n) {
      return absl::InvalidArgumentError(absl::StrCat("weights: ", draw.weights.size(),
                                                     ", there are ", n, " graphs to draw from"));
    }
    PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> all, IntegerWeights(draw.weights));
    // Both ascend: what fits is found by going through the selection once.
    size_t place = 0;
    for (size_t i = 0; i < items.size(); ++i, ++place) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(i));
      while ((selection ? (*selection)[place] : place) != items[i]) ++place;
      weights[i] = all[place];
    }
  }
  if (items.empty()) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(items, Sample(request, draw, items, weights, making));
  drawn.ShrinkTo(sizeof(uint32_t) * items.size());
  held = std::move(drawn);
  return absl::OkStatus();
}

absl::Status EpochPlan::PlanShuffled(const EpochRequest& request, const Making& making) {
  PlanningRoom room(making, classes_->num_classes(), classes_->num_components());
  PH_RETURN_IF_ERROR(room.HoldHistogram());
  PH_RETURN_IF_ERROR(room.HoldPlans(shapes_.size() + shapes_[0].size() - 1));
  PH_ASSIGN_OR_RETURN(const SizeHistogram histogram, classes_->Histogram(making));
  OptimizerOptions options;
  options.given_up = making.given_up();
  options.memory = room.memory();
  options.steps = OptimizerOptions::StepsFor(histogram.num_distinct());
  const Limits& limits = groups_ ? groups_->limits() : shapes_[0][0].usable;
  receipt_ = PlanReceipt(histogram, limits, options);
  if (shapes_.size() > 1) {
    std::vector<RankGroup> rank_groups;
    for (size_t i = 0; i < shapes_.size(); ++i) {
      rank_groups.push_back({shapes_[i][0].usable, request.rank_groups[i].num_ranks});
      if (i > 0) {
        absl::StrAppend(&receipt_, "+", PlanReceipt(histogram, shapes_[i][0].usable, options));
      }
    }
    absl::StatusOr<RoundPlan> plan = PlanRounds(histogram, rank_groups, options);
    if (!plan.ok()) return room.Reason(plan.status());
    patterns_by_rank_group_ = std::move(plan->patterns_by_rank_group);
    return KeepPatterns(room);
  }
  if (shapes_[0].size() > 1) {
    std::vector<std::vector<uint64_t>> shapes;
    for (const BatchShape& shape : shapes_[0]) {
      shapes.emplace_back(shape.usable.capacities().begin(), shape.usable.capacities().end());
      if (shapes.size() > 1) {
        absl::StrAppend(&receipt_, "+", PlanReceipt(histogram, shape.usable, options));
      }
    }
    WorkBudget budget(options.steps * shapes.size(), making.given_up(), options.memory);
    absl::StatusOr<std::vector<ShapePacks>> packs =
        PlanForShapes(histogram, shapes, options, budget);
    if (!packs.ok()) return room.Reason(packs.status());
    patterns_by_rank_group_.emplace_back();
    for (ShapePacks& of_shape : *packs) {
      std::move(of_shape.plan.patterns.begin(), of_shape.plan.patterns.end(),
                std::back_inserter(patterns_by_rank_group_[0]));
    }
    return KeepPatterns(room);
  }
  absl::StatusOr<CertifiedPlan> plan = OptimizePlan(histogram, limits, options);
  if (!plan.ok()) return room.Reason(plan.status());
  lower_bound_ = plan->bound.packs;
  patterns_by_rank_group_.push_back(std::move(plan->plan.patterns));
  return KeepPatterns(room);
}

absl::Status EpochPlan::KeepPatterns(PlanningRoom& room) {
  uint64_t bytes = 0;
  for (const std::vector<Pattern>& patterns : patterns_by_rank_group_) {
    bytes += BytesOfPatterns(patterns);
  }
  PH_ASSIGN_OR_RETURN(memory_, room.Keep(bytes));
  return absl::OkStatus();
}

uint64_t EpochPlan::bytes() const {
  // Names, shapes, what is listed: little.
  constexpr uint64_t kBesides = 16384;
  return kBesides + memory_.bytes() + (groups_ ? groups_->bytes() : 0) +
         (classes_ ? classes_->bytes() : 0) + (in_order_ ? in_order_->bytes() : 0);
}

void EpochPlan::AddRows(absl::Span<const uint32_t> tuple, uint64_t copies,
                        absl::Span<uint64_t> rows) const {
  for (size_t k = 0; k < tuple.size(); ++k) rows[k] += copies * tuple[k];
  // A group's tuple has its number of graphs.
  if (!groups_) rows.back() += copies;
}

size_t EpochPlan::ShapeOf(size_t rank_group, absl::Span<const uint64_t> rows) const {
  size_t shape = shapes_[rank_group].size() - 1;
  while (shape > 0 && !shapes_[rank_group][shape].Takes(rows)) --shape;
  return shape;
}

absl::Status EpochPlan::Count(size_t rank_group, absl::Span<const uint64_t> rows, uint64_t repeats,
                              const EpochBounds& bounds, bool whole_graphs) {
  const size_t number = ShapeOf(rank_group, rows);
  const BatchShape& shape = shapes_[rank_group][number];
  ShapeSummary& summary = summaries_[rank_group][number];
  if (whole_graphs && !shape.layout.is_fixed()) {
    const auto bytes = shape.layout.BatchBytes(rows);
    if (!bytes || *bytes > bounds.max_batch_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "limits: a batch would take ", bytes.value_or(UINT64_MAX), " bytes, at most ",
          bounds.max_batch_bytes, " are allowed; set limits, or lower them"));
    }
  }
  summary.num_batches += repeats;
  num_graphs_ += rows.back() * repeats;
  for (size_t k = 0; k < rows.size(); ++k) {
    ComponentEfficiency& component = summary.components[k];
    component.fullest_pack = std::max(component.fullest_pack, rows[k]);
    // Real rows, until all batches are counted.
    component.efficiency += static_cast<double>(rows[k]) * static_cast<double>(repeats);
  }
  return absl::OkStatus();
}

absl::Status EpochPlan::Summarize(const EpochBounds& bounds, bool whole_graphs,
                                  const Making& making) {
  size_t num_entries = 0;
  std::vector<uint64_t> rows(schema().num_components() + 1);
  if (in_order_) {
    for (size_t number = 0; number < in_order_->num_batches(); ++number) {
      std::fill(rows.begin(), rows.end(), 0);
      for (const uint32_t item : in_order_->batch(number)) {
        PH_RETURN_IF_ERROR(making.StillWantedAt(num_entries++));
        AddRows(GraphSizes().tuple(item), 1, absl::MakeSpan(rows));
      }
      PH_RETURN_IF_ERROR(Count(0, rows, 1, bounds, whole_graphs));
    }
  }
  for (size_t rank_group = 0; rank_group < patterns_by_rank_group_.size(); ++rank_group) {
    for (const Pattern& pattern : patterns_by_rank_group_[rank_group]) {
      std::fill(rows.begin(), rows.end(), 0);
      for (const auto& [tuple, copies] : pattern.entries) {
        PH_RETURN_IF_ERROR(making.StillWantedAt(num_entries++));
        AddRows(classes_->tuple(tuple), copies, absl::MakeSpan(rows));
      }
      PH_RETURN_IF_ERROR(Count(rank_group, rows, pattern.repeats, bounds, whole_graphs));
    }
  }
  for (std::vector<ShapeSummary>& rank_group : summaries_) {
    for (ShapeSummary& shape : rank_group) {
      for (ComponentEfficiency& component : shape.components) {
        const double real = component.efficiency;
        const auto ratio = [&](uint64_t capacity) {
          const double laid_out =
              static_cast<double>(shape.num_batches) * static_cast<double>(capacity);
          return laid_out == 0 ? 1 : real / laid_out;
        };
        component.efficiency = component.capacity == kUnlimited ? 1 : ratio(component.capacity);
        component.efficiency_of_fullest = ratio(component.fullest_pack);
      }
    }
  }
  return absl::OkStatus();
}

uint64_t EpochPlan::num_batches(size_t rank_group) const {
  uint64_t sum = 0;
  for (const ShapeSummary& shape : summaries_[rank_group]) sum += shape.num_batches;
  return sum;
}

absl::StatusOr<std::shared_ptr<const EpochPlan>> EpochPlan::Make(
    std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making) {
  auto plan = std::shared_ptr<EpochPlan>(new EpochPlan(std::move(reader)));
  PH_RETURN_IF_ERROR(plan->CheckRequest(request));
  std::optional<std::vector<uint32_t>> selection;
  MemoryHold selected;
  if (request.subset) {
    const size_t n = plan->reader_->num_graphs();
    PH_ASSIGN_OR_RETURN(
        selected, making.Hold(absl::StrCat("a subset of ", n, " graphs"), sizeof(uint32_t) * n));
    PH_ASSIGN_OR_RETURN(selection, plan->Positions(*request.subset, making));
  }
  PH_RETURN_IF_ERROR(plan->CheckReadable(selection));
  PH_RETURN_IF_ERROR(plan->ChooseShapes(request, bounds, selection, making));
  MemoryHold held;
  std::vector<uint32_t> items;
  PH_RETURN_IF_ERROR(plan->Select(request, selection, making, items, held));
  if (request.in_order) {
    std::vector<uint64_t> capacities(plan->shapes_[0][0].usable.capacities().begin(),
                                     plan->shapes_[0][0].usable.capacities().end());
    for (uint64_t& capacity : capacities) {
      capacity = std::min(capacity, kMaxCapacity);
    }
    PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create(std::move(capacities)));
    PH_ASSIGN_OR_RETURN(EpochBatches batches,
                        PackInOrder(plan->GraphSizes(), items, limits, request.look_ahead, making));
    plan->in_order_ = std::make_shared<const EpochBatches>(std::move(batches));
    plan->receipt_ = absl::StrCat("online-", kRulesVersion);
  } else {
    PH_ASSIGN_OR_RETURN(plan->classes_, SizeClasses::Create(plan->Items(), items, making));
    items = std::vector<uint32_t>();
    held.Reset();
    PH_RETURN_IF_ERROR(plan->PlanShuffled(request, making));
  }
  PH_RETURN_IF_ERROR(plan->Summarize(bounds, request.whole_graphs, making));
  return plan;
}

absl::StatusOr<std::shared_ptr<const PreparedEpoch>> PreparedEpoch::Prepare(
    std::shared_ptr<const EpochPlan> plan, const EpochRequest& request, const EpochBounds& bounds,
    const Making& making) {
  std::shared_ptr<const EpochBatches> batches = plan->in_order_;
  if (batches == nullptr) {
    std::optional<absl::Span<const uint64_t>> group_ids;
    if (plan->groups_) group_ids = plan->groups_->group_ids();
    PH_ASSIGN_OR_RETURN(EpochBatches drawn,
                        DrawEpoch(*plan->classes_, plan->patterns_by_rank_group_,
                                  {request.seed, request.key.epoch}, group_ids, making));
    batches = std::make_shared<const EpochBatches>(std::move(drawn));
  }
  EpochIdentity identity = {
      request.key, plan->dataset().name, plan->dataset().version, request.seed, {}, {}};
  for (size_t i = 0; i < plan->num_rank_groups(); ++i) {
    identity.rank_groups.push_back(
        {plan->shapes(i)[0].capacities,
         plan->num_rank_groups() > 1 ? request.rank_groups[i].num_ranks : 0, plan->num_batches(i)});
  }
  identity.options =
      absl::StrCat(request.Words(), "; plan ", plan->receipt_, "; rules ", kRulesVersion);
  PH_RETURN_IF_ERROR(CheckBatchCounts(identity));
  return std::shared_ptr<const PreparedEpoch>(new PreparedEpoch(
      std::move(plan), std::move(batches), std::move(identity), bounds, request.whole_graphs));
}

uint64_t PreparedEpoch::bytes() const { return plan_->bytes() + batches_->bytes(); }

uint64_t PreparedEpoch::NumGraphs(uint64_t number) const {
  const auto items = batches_->batch(number);
  if (!plan_->groups_) return items.size();
  uint64_t sum = 0;
  for (const uint32_t group : items) sum += plan_->groups_->graphs(group).size();
  return sum;
}

size_t PreparedEpoch::RankGroupOf(uint64_t number) const {
  size_t rank_group = 0;
  for (uint64_t end = 0; rank_group < identity_.rank_groups.size(); ++rank_group) {
    end += identity_.rank_groups[rank_group].num_batches;
    if (number < end) break;
  }
  return rank_group;
}

absl::StatusOr<BuiltBatch> PreparedEpoch::Build(uint64_t number) const {
  const auto items = batches_->batch(number);
  const size_t rank_group = RankGroupOf(number);
  std::vector<uint64_t> rows(plan_->schema().num_components() + 1);
  const ItemSizes sizes = plan_->Items();
  // Items lie anywhere; each is asked for so long before it is looked at.
  constexpr size_t kItemsAhead = 16;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i + kItemsAhead < items.size()) {
      __builtin_prefetch(sizes.tuple(items[i + kItemsAhead]).data());
    }
    plan_->AddRows(sizes.tuple(items[i]), 1, absl::MakeSpan(rows));
  }
  const size_t shape = plan_->ShapeOf(rank_group, rows);
  const BatchShape& of_shape = plan_->shapes(rank_group)[shape];
  if (plan_->groups_) {
    PH_ASSIGN_OR_RETURN(Batch batch, CollateGraphs(of_shape, plan_->groups_->GraphsOf(items)));
    return BuiltBatch{std::move(batch), shape};
  }
  PH_ASSIGN_OR_RETURN(Batch batch, CollateGraphs(of_shape, items));
  return BuiltBatch{std::move(batch), shape};
}

absl::StatusOr<BuiltBatch> PreparedEpoch::BuildPadding(size_t rank_group) const {
  // The smallest: it costs least.
  const size_t shape = plan_->shapes(rank_group).size() - 1;
  PH_ASSIGN_OR_RETURN(Batch batch, CollateGraphs(plan_->shapes(rank_group)[shape], {}));
  return BuiltBatch{std::move(batch), shape};
}

absl::StatusOr<Batch> PreparedEpoch::CollateGraphs(const BatchShape& shape,
                                                   absl::Span<const uint32_t> graphs) const {
  std::vector<GraphRef> refs;
  refs.reserve(graphs.size());
  for (const uint32_t graph : graphs) {
    PH_ASSIGN_OR_RETURN(const StoredGraph stored, plan_->reader_->Graph(graph));
    refs.push_back({stored.chunk, stored.index});
  }
  absl::StatusOr<Batch> batch =
      whole_graphs_ ? Collate(shape.layout, refs, bounds_.max_batch_bytes, bounds_.framing)
                    : CollateSizes(shape.layout, refs);
  // The rows were copied from where they are stored, which may have been lost meanwhile.
  PH_RETURN_IF_ERROR(plan_->reader_->CheckIntact());
  return batch;
}

}  // namespace packhouse
