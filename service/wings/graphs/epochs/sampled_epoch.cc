#include "service/wings/graphs/epochs/sampled_epoch.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/collate.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/base/digest.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/padding_batch.h"
#include "service/engine/epochs/pair_counter.h"
#include "service/engine/epochs/request_check.h"
#include "service/engine/epochs/selection.h"
#include "service/wings/graphs/epochs/seed_counter.h"
#include "service/wings/graphs/epochs/size_estimate.h"

namespace packhouse {
namespace options {
namespace {

constexpr EpochOption kSamplesDataset = {"a data set",
                                         [](const EpochRequest& r) { return !r.dataset.empty(); }};
constexpr EpochOption kSaidOversize = {"oversize_policy",
                                       [](const EpochRequest& r) { return r.said.oversize; }};

constexpr EpochRule kSampledRules[] = {
    {&kSamples, &kSegments, "epoch.segments: not together with samples, which come in windows"},
    {&kSamples, &kSaidOversize,
     "oversize_policy: must be unset with samples; samples.beyond_limits decides"},
    {&kSamples, &kSamplesDataset, "samples: not together with a data set"},
    {&kSamples, &kGrouped, "samples: not together with grouped; seeds have no groups"},
};

}  // namespace
}  // namespace options

namespace {

// Windows that are kept for batches that are sent again, or by slower ranks.
constexpr size_t kKeptWindows = 16;

absl::Status CheckSamples(const EpochRequest& request) {
  PH_RETURN_IF_ERROR(CheckTogether(SampledEpoch::Rules(), request));
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  PH_RETURN_IF_ERROR(CheckRankGroups(request));
  const SamplesRequest& samples = *request.Find<SamplesRequest>();
  if (samples.window > SampledEpoch::kMaxWindow) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples.window: ", samples.window, ", at most ", SampledEpoch::kMaxWindow));
  }
  if (!samples.seeds.times.empty() && samples.source->request().seeds_per_graph != 1) {
    return absl::InvalidArgumentError("seeds.times: not with seeds_per_graph above 1");
  }
  return absl::OkStatus();
}

// The version of the planner, and the limits: another release may pack otherwise.
std::string PlannerOf(const EpochRequest& request, const EpochShapes& shapes,
                      const EpochBounds& bounds) {
  if (request.in_order) return absl::StrCat("online-", kInOrderVersion);
  OptimizerOptions options;
  options.steps = bounds.planner_steps.value_or(options.steps);
  const SizeHistogram none(shapes.rank_group(0)[0].packed.num_components());
  std::vector<std::string> receipts;
  for (size_t i = 0; i < shapes.num_rank_groups(); ++i) {
    for (const BatchShape& shape : shapes.rank_group(i)) {
      receipts.push_back(PlanReceipt(none, shape.packed, options));
    }
  }
  if (receipts.size() == 1) return receipts[0];
  Digest digest;
  for (const std::string& receipt : receipts) digest.Add(receipt);
  return absl::StrCat("shapes-", digest.Hex(16));
}

// The request, as it is for a window, without the lists that only seeds are chosen by.
EpochRequest RequestOfWindows(const EpochRequest& request) {
  EpochRequest of_window = request;
  of_window.kinds.clear();
  of_window.subset.reset();
  of_window.draw.reset();
  of_window.use = EpochUse::kJob;
  of_window.oversize_is_error = true;
  return of_window;
}

uint64_t BytesOfLists(const EpochRequest& request) {
  uint64_t numbers = 0;
  if (request.subset) numbers += request.subset->ids.size() + 2 * request.subset->ranges.size();
  if (request.draw) numbers += request.draw->weights.size();
  return sizeof(uint64_t) * numbers;
}

}  // namespace

absl::Span<const EpochRule> SampledEpoch::Rules() { return options::kSampledRules; }

SampledEpoch::SampledEpoch(std::shared_ptr<const SubGraphSource> source,
                           const EpochRequest& request, const EpochBounds& bounds,
                           MemoryBudget* memory, SamplingObserver* observer)
    : source_(std::move(source)),
      request_(RequestOfWindows(request)),
      bounds_(bounds),
      memory_(memory),
      observer_(observer),
      seed_{request.seed, request.key.epoch},
      seeds_(request.Find<SamplesRequest>()->seeds),
      seeds_memory_(request.Find<SamplesRequest>()->memory),
      num_listed_(source_->NumSeeds(seeds_)),
      window_items_(request.Find<SamplesRequest>()->window == 0
                        ? kDefaultWindow
                        : request.Find<SamplesRequest>()->window),
      draws_smaller_(request.Find<SamplesRequest>()->draws_smaller),
      exact_steps_(request.Find<SamplesRequest>()->exact_steps),
      is_drawn_(request.draw.has_value()),
      teller_(request.Find<SamplesRequest>()->teller) {}

absl::StatusOr<std::shared_ptr<const SampledEpoch>> SampledEpoch::Prepare(
    std::shared_ptr<const SubGraphSource> source, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making, SamplingObserver* observer,
    const PlanFirstWindow& plan_first) {
  PH_RETURN_IF_ERROR(CheckSamples(request));
  const SamplesRequest& samples = *request.Find<SamplesRequest>();
  PH_RETURN_IF_ERROR(source->CheckSeeds(samples.seeds));
  if (request.whole_graphs || request.use == EpochUse::kExport) {
    PH_RETURN_IF_ERROR(source->CheckHasReadout(samples.seeds));
  }
  std::shared_ptr<SampledEpoch> epoch;
  {
    PH_ASSIGN_OR_RETURN(const MemoryHold of_lists,
                        making.Hold("a subset or a draw of seeds", BytesOfLists(request)));
    epoch = std::shared_ptr<SampledEpoch>(
        new SampledEpoch(std::move(source), request, bounds, making.memory(), observer));
  }
  if (epoch->num_listed_ == 0) return absl::InvalidArgumentError("samples.seeds: there are none");
  if (epoch->num_listed_ > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples.seeds: ", epoch->num_listed_, ", at most 2^32 - 1"));
  }
  PH_RETURN_IF_ERROR(epoch->SelectSeeds(request.subset, making));
  PH_ASSIGN_OR_RETURN(epoch->order_, epoch->OrderSeeds(epoch->seed_, request.draw, making));
  const uint64_t per_graph = epoch->source_->request().seeds_per_graph;
  epoch->num_items_ = (epoch->num_seeds() + per_graph - 1) / per_graph;
  if (epoch->num_items_ == 0) {
    return absl::InvalidArgumentError("samples: the subset or the draw has no seeds");
  }
  PH_RETURN_IF_ERROR(epoch->SetShapes(making));
  PH_RETURN_IF_ERROR(epoch->SetIdentity(request));
  const bool plans_all = samples.exact_steps || request.use != EpochUse::kJob;
  if (plan_first != nullptr && !plans_all) {
    PH_RETURN_IF_ERROR(plan_first(epoch));
    return epoch;
  }
  const uint64_t planned = plans_all ? epoch->num_windows() : 1;
  for (uint64_t window = 0; window < planned; ++window) {
    PH_RETURN_IF_ERROR(epoch->Plan(window, making));
  }
  return epoch;
}

absl::Status SampledEpoch::SetShapes(const Making& making) {
  const BatchShapeOptions options = {request_.padding,        request_.derived,
                                     request_.whole_graphs,   bounds_.max_graphs_per_batch,
                                     bounds_.max_batch_bytes, request_.min_rows,
                                     request_.integer_width};
  const auto sizes = [&]() -> absl::StatusOr<HeldSizes> {
    PH_ASSIGN_OR_RETURN(SizeEstimate estimate, EstimateSizes(source_, seeds_, {seed_.seed, 0},
                                                             kTunedBy, making, observer_));
    return HeldSizes{std::move(estimate.memory), std::move(estimate.histogram)};
  };
  PH_ASSIGN_OR_RETURN(shapes_, ChooseShapes(request_.rank_groups, request_.adaptive, schema(),
                                            options, sizes, making));
  const auto capacities = shapes_.Capacities();
  for (size_t i = 0; i < capacities.size(); ++i) {
    RankGroupRequest& rank_group = request_.rank_groups[i];
    if (!rank_group.device) continue;
    // Windows take these as they are.
    rank_group.present = capacities[i];
    if (rank_group.device->measured_as.empty() || planned_ != nullptr) continue;
    PlannerResult planned;
    planned.receipt = PlannerOf(request_, shapes_, bounds_);
    planned.dataset_version = source_->graph().version();
    planned.shapes = capacities;
    planned_ = std::make_shared<const PlannerResult>(std::move(planned));
  }
  request_.adaptive = false;
  leading_ = shapes_.Leading();
  for (const BatchShape* const shape : leading_) {
    std::vector<uint32_t>& limits = limits_.emplace_back();
    for (size_t k = 0; k < schema().num_components(); ++k) {
      limits.push_back(static_cast<uint32_t>(
          std::min<uint64_t>(shape->LargestGraph(k), std::numeric_limits<uint32_t>::max())));
    }
  }
  return absl::OkStatus();
}

absl::Status SampledEpoch::SetIdentity(const EpochRequest& request) {
  identity_.num_windows = (num_items_ + window_items_ - 1) / window_items_;
  if (identity_.num_windows > kMaxWindows) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples.window: ", window_items_, " makes ", identity_.num_windows,
                     " windows of ", num_items_, " sub-graphs, at most ", kMaxWindows));
  }
  identity_.key = request.key;
  identity_.dataset = source_->request().graph;
  identity_.dataset_version = source_->graph().version();
  identity_.seed = request.seed;
  const bool is_for_ranks = request.rank_groups.size() > 1 || request.cost_balanced;
  for (size_t i = 0; i < request.rank_groups.size(); ++i) {
    identity_.rank_groups.push_back(
        {shapes(i)[0].capacities, is_for_ranks ? request.rank_groups[i].num_ranks : 0, num_items_});
  }
  identity_.options = absl::StrCat(request.Words(), DeviceCostWords(request), "; planner ",
                                   PlannerOf(request, shapes_, bounds_), "; rules ", kRulesVersion);
  first_batches_ = identity_.first_batches();
  {
    absl::MutexLock lock(&mutex_);
    ends_.resize(identity_.rank_groups.size());
  }
  return CheckBatchCounts(identity_);
}

// --- The kind.

std::string SamplesRequest::Words() const {
  Digest digest;
  digest.Add(uint64_t{seeds.nodes != nullptr});
  if (seeds.nodes != nullptr) {
    digest.Add(absl::string_view(reinterpret_cast<const char*>(seeds.nodes->data()),
                                 seeds.nodes->size() * sizeof(uint32_t)));
  }
  for (const uint32_t occurrence : seeds.occurrences) digest.Add(uint64_t{occurrence});
  for (const int64_t time : seeds.times) digest.Add(static_cast<uint64_t>(time));
  if (seeds.readout != nullptr) {
    for (const std::string& rows : *seeds.readout) digest.Add(rows);
  }
  return absl::StrCat("sub-graphs of ", source->request().Words(), " for ", source->NumSeeds(seeds),
                      " seeds ", digest.Hex(16), " in windows of ", window,
                      draws_smaller ? "" : ", never drawn smaller");
}

absl::Span<const EpochRule> SamplesRequest::rules() const { return SampledEpoch::Rules(); }

std::optional<ItemKind::Thing> SamplesRequest::thing() const {
  return Thing{source->request().graph, source->graph().version()};
}

absl::StatusOr<std::shared_ptr<const LoadableEpoch>> SamplesRequest::Prepare(
    const EpochRequest& request, const KindSources& from) const {
  return SampledEpoch::Prepare(source, request, from.bounds, from.making, from.observer,
                               from.plan_first);
}

absl::Status SamplesRequest::Complete(const EpochRequest& request, const LoadableEpoch& epoch,
                                      const Making& making) const {
  // The epoch may have been prepared for an evaluation of sizes.
  if (request.use == EpochUse::kExport) PH_RETURN_IF_ERROR(source->CheckHasReadout(seeds));
  const EpochWindows& windows = *epoch.windows();
  const bool plans_all = exact_steps || request.use != EpochUse::kJob;
  const uint64_t num_known = windows.Counts().size() / epoch.identity().rank_groups.size();
  for (uint64_t next = num_known; plans_all && next < windows.num_windows(); ++next) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(windows.Plan(next, making));
  }
  return absl::OkStatus();
}

// --- Seeds.

absl::Status SampledEpoch::SelectSeeds(const std::optional<SubsetRequest>& subset,
                                       const Making& making) {
  if (!subset) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(
      const MemoryHold of_lists,
      making.Hold("a subset of seeds",
                  2 * sizeof(uint64_t) * (subset->ids.size() + 2 * subset->ranges.size())));
  PH_ASSIGN_OR_RETURN(const auto whole, SubsetOfWhole(*subset));
  if (!whole->ids.empty() && whole->ids.back() >= num_listed_) {
    return absl::InvalidArgumentError(absl::StrCat("subset: there are ", num_listed_,
                                                   " seeds, none with id ", whole->ids.back()));
  }
  uint64_t most = whole->ids.size();
  for (const auto& [first, count] : whole->ranges) {
    most += first >= num_listed_ ? 0 : std::min(count, num_listed_ - first);
  }
  PH_ASSIGN_OR_RETURN(selected_memory_,
                      making.Hold("the seeds of a subset", sizeof(uint32_t) * most));
  std::vector<uint32_t>& rows = selected_.emplace();
  rows.reserve(most);
  for (const uint64_t id : whole->ids) rows.push_back(static_cast<uint32_t>(id));
  for (const auto& [first, count] : whole->ranges) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    for (uint64_t i = 0; i < count && first + i < num_listed_; ++i) {
      rows.push_back(static_cast<uint32_t>(first + i));
    }
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return absl::OkStatus();
}

absl::StatusOr<SampledEpoch::SeedOrder> SampledEpoch::OrderSeeds(
    const EpochSeed& seed, const std::optional<WeightedDraw>& draw, const Making& making) const {
  SeedOrder order;
  order.seed = seed;
  const uint64_t num_seeds = selected_ ? selected_->size() : num_listed_;
  PH_ASSIGN_OR_RETURN(order.memory, making.Hold(absl::StrCat("an epoch of ", num_seeds, " seeds"),
                                                sizeof(uint32_t) * num_seeds));
  if (selected_) {
    order.rows = *selected_;
  } else {
    order.rows.resize(num_seeds);
    std::iota(order.rows.begin(), order.rows.end(), uint32_t{0});
  }
  if (draw) PH_RETURN_IF_ERROR(DrawSeeds(*draw, making, order));
  if (request_.in_order) return order;
  SeededRandom random(SequenceStart(seed, DrawPurpose::kSeeds));
  PH_RETURN_IF_ERROR(Shuffle(absl::MakeSpan(order.rows), random, making));
  if (!draw || !draw->with_replacement) return order;
  // The same seed once more is another draw.
  const size_t ends = seeds_.nodes == nullptr ? 1 : seeds_.nodes->size() / num_listed_;
  const uint64_t num_nodes = source_->graph().num_nodes(source_->seed_node_set());
  PH_ASSIGN_OR_RETURN(
      const MemoryHold counting,
      making.Hold("which drawn seeds came before",
                  num_nodes / 8 + (sizeof(uint32_t) * ends + 24) * order.rows.size()));
  std::vector<uint32_t> nodes;
  nodes.reserve(ends * order.rows.size());
  for (const uint32_t row : order.rows) {
    for (size_t j = 0; j < ends; ++j) {
      nodes.push_back(seeds_.nodes == nullptr ? row : (*seeds_.nodes)[uint64_t{row} * ends + j]);
    }
  }
  order.occurrences = SeedOccurrences(nodes, num_nodes, ends);
  return order;
}

absl::Status SampledEpoch::DrawSeeds(const WeightedDraw& draw, const Making& making,
                                     SeedOrder& order) const {
  const uint64_t num_seeds = order.rows.size();
  if (!draw.weights.empty() && draw.weights.size() != num_seeds) {
    return absl::InvalidArgumentError(absl::StrCat("weights: ", draw.weights.size(), ", there are ",
                                                   num_seeds, " seeds to draw from"));
  }
  const uint64_t count = draw.num_graphs == 0 ? num_seeds : draw.num_graphs;
  if (count > ItemSizes::kMaxItems || num_seeds > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("draw: ", count, " of ", num_seeds, " seeds, at most ", ItemSizes::kMaxItems));
  }
  if (num_seeds == 0) return absl::OkStatus();
  // Places, and how often each seed came before.
  const uint64_t most = draw.with_replacement ? count : std::min(count, num_seeds);
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      making.Hold(absl::StrCat("a draw of ", most, " seeds"),
                                  (draw.with_replacement ? 2 : 1) * sizeof(uint32_t) * most));
  PH_ASSIGN_OR_RETURN(const MemoryHold drawing,
                      making.Hold(absl::StrCat("a draw from ", num_seeds, " seeds"),
                                  (kSamplingBytes + sizeof(uint32_t)) * num_seeds));
  std::vector<uint32_t> weights(num_seeds, 1);
  if (!draw.weights.empty()) {
    PH_ASSIGN_OR_RETURN(weights, IntegerWeights(draw.weights));
  }
  PH_ASSIGN_OR_RETURN(
      std::vector<uint32_t> drawn,
      DrawPlaces(weights, draw.num_graphs == 0 ? std::nullopt : std::optional(draw.num_graphs),
                 draw.with_replacement, order.seed, making));
  for (uint32_t& place : drawn) place = order.rows[place];
  order.rows = std::move(drawn);
  order.memory = std::move(memory);
  return absl::OkStatus();
}

uint64_t SampledEpoch::bytes() const {
  constexpr uint64_t kBesides = 16384;
  return kBesides +
         sizeof(uint32_t) * (order_.rows.size() + order_.occurrences.size() +
                             (selected_ ? selected_->size() : 0)) +
         (seeds_memory_ == nullptr ? 0 : seeds_memory_->bytes());
}

SubGraphDrawer::Draw SampledEpoch::DrawOf(const SeedOrder& order, uint64_t item,
                                          SeedRows& rows) const {
  const uint64_t per_graph = source_->request().seeds_per_graph;
  const size_t ends = source_->nodes_per_graph() / per_graph;
  rows.nodes.clear();
  rows.occurrences.clear();
  for (uint64_t i = item * per_graph; i < std::min(order.rows.size(), (item + 1) * per_graph);
       ++i) {
    const uint64_t row = order.rows[i];
    for (size_t j = 0; j < ends; ++j) {
      rows.nodes.push_back(seeds_.nodes == nullptr ? static_cast<uint32_t>(row)
                                                   : (*seeds_.nodes)[row * ends + j]);
    }
    if (!order.occurrences.empty()) {
      rows.occurrences.push_back(order.occurrences[i]);
    } else if (!seeds_.occurrences.empty()) {
      rows.occurrences.push_back(seeds_.occurrences[row]);
    }
  }
  SubGraphDrawer::Draw draw;
  draw.seed_number = order.seed.seed;
  draw.epoch = order.seed.epoch;
  draw.seeds = rows.nodes;
  draw.occurrences = rows.occurrences;
  if (!seeds_.times.empty()) draw.time = seeds_.times[order.rows[item]];
  return draw;
}

std::vector<uint64_t> SampledEpoch::RowsOf(uint64_t item) const {
  const uint64_t per_graph = source_->request().seeds_per_graph;
  std::vector<uint64_t> rows;
  for (uint64_t i = item * per_graph; i < std::min(order_.rows.size(), (item + 1) * per_graph);
       ++i) {
    rows.push_back(order_.rows[i]);
  }
  return rows;
}

absl::Status SampledEpoch::CheckFits(absl::Span<const uint32_t> tuple) const {
  std::vector<uint32_t> packed(tuple.begin(), tuple.end());
  for (size_t k = 0; k < packed.size(); ++k) {
    packed[k] = request_.min_rows.PackedSize(k, tuple[k]);
  }
  for (const BatchShape* const shape : leading_) {
    if (!shape->packed.FirstExceeded(packed)) return absl::OkStatus();
  }
  const size_t k = *leading_.back()->packed.FirstExceeded(packed);
  const uint64_t least = request_.min_rows[k];
  return absl::OutOfRangeError(absl::StrCat(
      "has ", tuple[k], " rows of '", schema().sizes().name(k), "', ",
      tuple[k] < least ? absl::StrCat("at least ", least, " are needed")
                       : absl::StrCat("a batch takes at most ", leading_.back()->LargestGraph(k))));
}

absl::Status SampledEpoch::DrawToFit(SubGraphDrawer::Draw draw, SubGraphDrawer& drawer) const {
  if (!draws_smaller_) {
    PH_RETURN_IF_ERROR(drawer.Next(draw));
    return CheckFits(drawer.tuple());
  }
  // Of shapes of which none takes all that another takes, the one that leaves out the least.
  std::optional<uint32_t> least;
  absl::Status why;
  for (const std::vector<uint32_t>& limits : limits_) {
    draw.limits = limits;
    const absl::Status drawn = drawer.Next(draw);
    if (!drawn.ok() && !absl::IsOutOfRange(drawn)) return drawn;
    if (!drawn.ok()) {
      why = drawn;
    } else if (!least || drawer.level() < *least) {
      least = drawer.level();
    }
    if (least == uint32_t{0}) break;
  }
  if (!least) return why;
  if (limits_.size() > 1 && *least != 0) {
    draw.limits = {};
    draw.level = *least;
    PH_RETURN_IF_ERROR(drawer.Next(draw));
  }
  return CheckFits(drawer.tuple());
}

// --- Windows.

absl::StatusOr<std::unique_ptr<SubGraphDrawer>> SampledEpoch::TakeDrawer() const {
  {
    absl::MutexLock lock(&mutex_);
    if (!drawers_.empty()) {
      auto drawer = std::move(drawers_.back());
      drawers_.pop_back();
      return drawer;
    }
  }
  PH_ASSIGN_OR_RETURN(SubGraphDrawer drawer, SubGraphDrawer::Create(source_, memory_, observer_));
  return std::make_unique<SubGraphDrawer>(std::move(drawer));
}

void SampledEpoch::GiveBack(std::unique_ptr<SubGraphDrawer> drawer) const {
  absl::MutexLock lock(&mutex_);
  drawers_.push_back(std::move(drawer));
}

SampledEpoch::Window SampledEpoch::Find(uint64_t window) const {
  absl::MutexLock lock(&mutex_);
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (kept->first != window) continue;
    kept_.splice(kept_.begin(), kept_, kept);
    return kept->second;
  }
  return nullptr;
}

absl::StatusOr<SampledEpoch::Window> SampledEpoch::Planned(const SeedOrder& order, uint64_t window,
                                                           absl::Span<const uint64_t> num_before,
                                                           const Making& making) const {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<SubGraphDrawer> drawer, TakeDrawer());
  const uint64_t first = FirstItem(window);
  const uint64_t count = std::min(num_items_ - first, window_items_);
  EpochRequest of_window = request_;
  of_window.seed = SeededRandom(order.seed.seed ^ (window + 1)).Next();
  of_window.key.epoch = order.seed.epoch;
  BeginAt(num_before, of_window);
  SeedRows rows;
  const auto size = [&](size_t item) -> absl::StatusOr<DrawnSize> {
    SubGraphDrawer::Draw draw = DrawOf(order, first + item, rows);
    draw.edge_numbers = false;
    const absl::Status drawn = DrawToFit(draw, *drawer);
    if (absl::IsOutOfRange(drawn)) {
      return absl::OutOfRangeError(absl::StrCat("sub-graph ", IdOf(order, first + item),
                                                " of seed node ", rows.nodes[0], ": ",
                                                drawn.message()));
    }
    PH_RETURN_IF_ERROR(drawn);
    return DrawnSize{drawer->tuple(), drawer->level()};
  };
  auto planned = PlanWindow(count, source_->shared_schema(), of_window, bounds_, making, size);
  GiveBack(std::move(drawer));
  PH_RETURN_IF_ERROR(planned.status());
  return std::make_shared<const SampleWindow>(*std::move(planned));
}

absl::StatusOr<SampledEpoch::Window> SampledEpoch::WindowAt(uint64_t window,
                                                            const Making& making) const {
  if (Window found = Find(window)) return found;
  // Another server, or one that has forgotten the epoch, may have planned those before it.
  Known before = KnownBefore(window);
  for (; before.num_windows < window; before = KnownBefore(window)) {
    PH_RETURN_IF_ERROR(WindowAt(before.num_windows, making).status());
  }
  PH_ASSIGN_OR_RETURN(Window made, Planned(order_, window, before.num_batches, making));
  absl::MutexLock lock(&mutex_);
  // Somebody else may have planned it meanwhile.
  for (const auto& [number, kept] : kept_) {
    if (number == window) return kept;
  }
  if (window == 0) steps_ = made->drawn->steps;
  kept_.emplace_front(window, made);
  if (kept_.size() > std::max(most_kept_, kKeptWindows)) kept_.pop_back();
  const std::vector<uint64_t>& first = made->batches().first_batches();
  for (size_t j = 0; j < ends_.size() && ends_[j].size() == window; ++j) {
    ends_[j].push_back(before.num_batches[j] + first[j + 1] - first[j]);
  }
  return made;
}

SampledEpoch::Known SampledEpoch::KnownBefore(uint64_t window) const {
  absl::MutexLock lock(&mutex_);
  Known known;
  known.num_windows = std::min<uint64_t>(window, ends_[0].size());
  for (const std::vector<uint64_t>& ends : ends_) {
    known.num_batches.push_back(known.num_windows == 0 ? 0 : ends[known.num_windows - 1]);
  }
  return known;
}

std::optional<StepFigures> SampledEpoch::steps() const {
  absl::MutexLock lock(&mutex_);
  return steps_;
}

absl::StatusOr<std::optional<Company>> SampledEpoch::MeasureCompany(const Making& making) const {
  const bool plans_all = exact_steps_ || num_items_ <= window_items_;
  if (!plans_all || is_drawn_ || source_->request().seeds_per_graph != 1) return std::nullopt;
  if (const std::optional<Company> known = known_company()) return known;
  const auto measured = CompanyBeside({seed_.seed, seed_.epoch == 0 ? 1 : seed_.epoch - 1}, making);
  if (absl::IsCancelled(measured.status())) return measured.status();
  // Whoever loads that epoch learns why.
  if (!measured.ok()) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  company_ = *measured;
  return company_;
}

std::optional<Company> SampledEpoch::known_company() const {
  absl::MutexLock lock(&mutex_);
  return company_;
}

absl::StatusOr<Company> SampledEpoch::CompanyBeside(const EpochSeed& neighbour,
                                                    const Making& making) const {
  PH_ASSIGN_OR_RETURN(const MemoryHold memory,
                      making.Hold(absl::StrCat("company of ", num_listed_, " seeds"),
                                  2 * sizeof(uint32_t) * num_listed_));
  PH_ASSIGN_OR_RETURN(const SeedOrder order, OrderSeeds(neighbour, std::nullopt, making));
  std::vector<uint32_t> batch_of(num_listed_, kNowhere);
  std::vector<uint64_t> num_before(identity_.rank_groups.size());
  uint32_t num_batches = 0;
  for (uint64_t w = 0; w < num_windows(); ++w) {
    PH_ASSIGN_OR_RETURN(const Window window, Planned(order, w, num_before, making));
    const EpochBatches& batches = window->batches();
    for (size_t b = 0; b < batches.num_batches(); ++b, ++num_batches) {
      for (const uint32_t item : batches.batch(b)) {
        batch_of[order.rows[FirstItem(w) + item]] = num_batches;
      }
    }
    for (size_t j = 0; j < num_before.size(); ++j) {
      num_before[j] += batches.first_batches()[j + 1] - batches.first_batches()[j];
    }
  }
  PairCounter counter(batch_of, num_batches);
  uint64_t together = 0;
  uint64_t pairs = 0;
  std::vector<uint32_t> seeds;
  for (uint64_t w = 0; w < num_windows(); ++w) {
    PH_ASSIGN_OR_RETURN(const Window window, WindowAt(w, making));
    for (size_t b = 0; b < window->batches().num_batches(); ++b) {
      seeds.clear();
      for (const uint32_t item : window->batches().batch(b)) {
        seeds.push_back(order_.rows[FirstItem(w) + item]);
      }
      together += counter.Together(seeds);
      pairs += PairsOf(seeds.size());
    }
  }
  if (pairs == 0) return Company();
  const auto share = [](uint64_t part, uint64_t of) {
    return static_cast<double>(part) / static_cast<double>(of);
  };
  return Company{share(together, pairs), share(pairs, PairsOf(num_items_))};
}

absl::Status SampledEpoch::Plan(uint64_t window, const Making& making) const {
  return WindowAt(window, making).status();
}

std::vector<uint32_t> SampledEpoch::Counts() const {
  std::vector<uint32_t> counts;
  absl::MutexLock lock(&mutex_);
  for (size_t window = 0; window < ends_[0].size(); ++window) {
    for (const std::vector<uint64_t>& ends : ends_) {
      counts.push_back(static_cast<uint32_t>(ends[window] - (window == 0 ? 0 : ends[window - 1])));
    }
  }
  return counts;
}

absl::Status SampledEpoch::Learn(absl::Span<const uint32_t> counts) const {
  absl::MutexLock lock(&mutex_);
  const size_t num_groups = ends_.size();
  for (size_t i = 0; i < counts.size() / num_groups * num_groups; ++i) {
    const uint64_t window = i / num_groups;
    std::vector<uint64_t>& ends = ends_[i % num_groups];
    const uint64_t end = (window == 0 ? 0 : ends[window - 1]) + counts[i];
    if (window == ends.size() && window < identity_.num_windows) ends.push_back(end);
    if (window < ends.size() && ends[window] == end) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("samples: window ", window, " had ", counts[i],
                     " batches when it was planned first, and has another number now"));
  }
  return absl::OkStatus();
}

SampledEpoch::BatchPlace SampledEpoch::PlaceOf(uint64_t number) const {
  BatchPlace place;
  while (place.rank_group + 1 < identity_.rank_groups.size() &&
         number >= first_batches_[place.rank_group + 1]) {
    ++place.rank_group;
  }
  place.index = number - first_batches_[place.rank_group];
  absl::MutexLock lock(&mutex_);
  const std::vector<uint64_t>& ends = ends_[place.rank_group];
  const auto end = std::upper_bound(ends.begin(), ends.end(), place.index);
  if (end != ends.begin()) place.index -= *std::prev(end);
  place.window = static_cast<uint64_t>(end - ends.begin());
  return place;
}

absl::Span<const uint32_t> SampledEpoch::ItemsAt(const SampleWindow& window,
                                                 const BatchPlace& place) {
  return window.batches().batch(window.batches().first_batches()[place.rank_group] + place.index);
}

std::optional<uint64_t> SampledEpoch::FirstMissing(absl::Span<const uint64_t> batches) const {
  std::set<uint64_t> windows;
  for (const uint64_t batch : batches) windows.insert(PlaceOf(batch).window);
  {
    absl::MutexLock lock(&mutex_);
    // All are kept at once, or they would push each other out for ever.
    most_kept_ = std::max(most_kept_, kKeptWindows + windows.size());
  }
  std::optional<uint64_t> missing;
  for (const uint64_t window : windows) {  // All count as used.
    if (Find(window) == nullptr && !missing) missing = window;
  }
  return missing;
}

// --- Batches.

uint64_t SampledEpoch::NumGraphs(uint64_t number) const {
  const BatchPlace place = PlaceOf(number);
  const auto found = WindowAt(place.window, Making(memory_, nullptr));
  return found.ok() ? ItemsAt(**found, place).size() : 0;
}

absl::StatusOr<SampledEpoch::DrawnBatch> SampledEpoch::DrawItemsAt(const SampleWindow& window,
                                                                   const BatchPlace& place,
                                                                   bool whole,
                                                                   SubGraphDrawer& drawer) const {
  SampledChunk chunk(&source_->sampled_schema());
  MemoryHold memory;
  std::vector<uint64_t> ids;
  std::vector<uint32_t> sizes;
  std::vector<uint64_t> sums(schema().num_components() + 1);
  std::vector<std::pair<uint64_t, uint32_t>> smaller;
  SeedRows rows;
  SeedReadout readout;
  for (const uint32_t of_window : ItemsAt(window, place)) {
    const uint64_t item = FirstItem(place.window) + of_window;
    SubGraphDrawer::Draw draw = DrawOf(order_, item, rows);
    draw.level = window.LevelOf(of_window);
    draw.edge_numbers = whole;
    PH_RETURN_IF_ERROR(drawer.Next(draw));
    ids.push_back(IdOf(order_, item));
    if (draw.level != 0) smaller.emplace_back(ids.back(), draw.level);
    AddRows(drawer.tuple(), 1, absl::MakeSpan(sums));
    if (!whole) {
      sizes.insert(sizes.end(), drawer.tuple().begin(), drawer.tuple().end());
      continue;
    }
    if (memory_ != nullptr) {
      // Columns may grow to twice their bytes.
      constexpr absl::string_view kWhat = "the sub-graphs of a batch";
      if (memory.bytes() == 0) {
        PH_ASSIGN_OR_RETURN(memory, memory_->Hold(kWhat, 2 * drawer.num_bytes()));
      } else {
        PH_RETURN_IF_ERROR(memory.Grow(kWhat, 2 * drawer.num_bytes()));
      }
    }
    PH_RETURN_IF_ERROR(drawer.AppendTo(
        chunk, seeds_.readout == nullptr ? ReadoutRows()
                                         : readout.Gather(*source_, seeds_, RowsOf(item))));
  }
  if (whole) {
    PH_ASSIGN_OR_RETURN(GraphChunk graphs, chunk.Finish(0));
    PH_ASSIGN_OR_RETURN(graphs,
                        WithGraphIds(std::move(graphs), std::move(ids), /*may_repeat=*/true));
    return DrawnBatch{std::move(memory), std::move(graphs), std::move(sums), std::move(smaller)};
  }
  const size_t num_graphs = ids.size();
  PH_ASSIGN_OR_RETURN(SizeTable table, SizeTable::WithAnyIds(num_graphs, schema().num_components(),
                                                             std::move(sizes), std::move(ids)));
  return DrawnBatch{std::move(memory), GraphChunk::OfSizes(&schema(), std::move(table)),
                    std::move(sums), std::move(smaller)};
}

absl::StatusOr<SampledEpoch::DrawnBatch> SampledEpoch::DrawBatch(uint64_t number,
                                                                 bool whole) const {
  const BatchPlace place = PlaceOf(number);
  PH_ASSIGN_OR_RETURN(const Window window, WindowAt(place.window, Making(memory_, nullptr)));
  PH_ASSIGN_OR_RETURN(std::unique_ptr<SubGraphDrawer> drawer, TakeDrawer());
  auto drawn = DrawItemsAt(*window, place, whole, *drawer);
  GiveBack(std::move(drawer));
  return drawn;
}

absl::StatusOr<GraphsOfBatch> SampledEpoch::GraphsOf(uint64_t number) const {
  PH_ASSIGN_OR_RETURN(DrawnBatch drawn, DrawBatch(number, /*whole=*/true));
  GraphsOfBatch graphs;
  graphs.places.resize(drawn.graphs.num_graphs());
  std::iota(graphs.places.begin(), graphs.places.end(), uint32_t{0});
  graphs.reader = std::make_shared<const SubGraphReader>(
      source_->shared_schema(), std::move(drawn.graphs), std::move(drawn.memory));
  return graphs;
}

absl::StatusOr<BuiltBatch> SampledEpoch::Build(uint64_t number) const {
  PH_ASSIGN_OR_RETURN(DrawnBatch drawn, DrawBatch(number, request_.whole_graphs));
  std::vector<GraphRef> refs;
  for (size_t i = 0; i < drawn.graphs.num_graphs(); ++i) refs.push_back({&drawn.graphs, i});
  const size_t rank_group = PlaceOf(number).rank_group;
  BuiltBatch built;
  built.shape = shapes_.ShapeFor(rank_group, drawn.rows);
  built.drawn_smaller = std::move(drawn.smaller);
  const BatchLayout& layout = shapes(rank_group)[built.shape].layout;
  PH_ASSIGN_OR_RETURN(built.batch,
                      request_.whole_graphs
                          ? Collate(layout, refs, bounds_.max_batch_bytes, bounds_.framing)
                          : CollateSizes(layout, refs));
  return built;
}

absl::StatusOr<BuiltBatch> SampledEpoch::BuildPadding(size_t rank_group) const {
  return PaddingBatch(shapes(rank_group), request_.whole_graphs, bounds_);
}

}  // namespace packhouse
