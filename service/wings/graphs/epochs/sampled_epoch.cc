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
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/padding_batch.h"
#include "service/engine/epochs/pair_counter.h"

namespace packhouse {
namespace options {
namespace {

constexpr EpochOption kSamplesDataset = {"a data set",
                                         [](const EpochRequest& r) { return !r.dataset.empty(); }};
constexpr EpochOption kSaidOversize = {"oversize_policy",
                                       [](const EpochRequest& r) { return r.said.oversize; }};

constexpr EpochRule kSampledRules[] = {
    {&kSamples, &kAdaptive, "epoch.adaptive: not with samples or join_parts"},
    {&kSamples, &kSegments, "epoch.segments: not together with samples or join_parts"},
    {&kSamples, &kExport, "epoch.samples: sub-graphs are not exported"},
    {&kSamples, &kSaidOversize,
     "oversize_policy: must be unset with samples; samples.beyond_limits decides"},
    {&kSamples, &kSamplesDataset, "samples: not together with a data set"},
    {&kSamples, &kGrouped, "samples: not together with grouped; seeds have no groups"},
    {&kSamples, &kSubset, "samples: not together with subset; samples.seeds lists the seeds"},
    {&kSamples, &kDraw,
     "samples: not together with draw; samples.seeds lists seeds as often as they are drawn"},
    {&kSamples, &kMinRows,
     "samples: not together with min_rows; a sub-graph below them cannot be left out"},
    {&kSamples, &kNotOneShape, "samples: only with one rank group, and one shape of given limits"},
};

}  // namespace
}  // namespace options

namespace {

// Windows that are kept for batches that are sent again, or by slower ranks.
constexpr size_t kKeptWindows = 16;

absl::Status CheckSamples(const EpochRequest& request) {
  PH_RETURN_IF_ERROR(CheckTogether(SampledEpoch::Rules(), request));
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  PH_RETURN_IF_ERROR(CheckCostOrder(request));
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
std::string PlannerOf(const EpochRequest& request, const Limits& limits) {
  if (request.in_order) return absl::StrCat("online-", kInOrderVersion);
  SizeHistogram none(limits.num_components());
  return PlanReceipt(none, limits, OptimizerOptions());
}

}  // namespace

absl::Span<const EpochRule> SampledEpoch::Rules() { return options::kSampledRules; }

SampledEpoch::SampledEpoch(std::shared_ptr<const SubGraphSource> source,
                           const EpochRequest& request, const EpochBounds& bounds,
                           MemoryBudget* memory, SamplingObserver* observer)
    : source_(std::move(source)),
      request_(request),
      bounds_(bounds),
      memory_(memory),
      observer_(observer),
      seed_{request.seed, request.key.epoch},
      seeds_(request.Find<SamplesRequest>()->seeds),
      seeds_memory_(request.Find<SamplesRequest>()->memory),
      num_seeds_(source_->NumSeeds(seeds_)),
      num_items_(source_->NumGraphs(seeds_)),
      window_items_(request.Find<SamplesRequest>()->window == 0
                        ? kDefaultWindow
                        : request.Find<SamplesRequest>()->window),
      draws_smaller_(request.Find<SamplesRequest>()->draws_smaller),
      plans_all_(request.Find<SamplesRequest>()->exact_steps || num_items_ <= window_items_),
      teller_(request.Find<SamplesRequest>()->teller) {}

absl::StatusOr<std::shared_ptr<const SampledEpoch>> SampledEpoch::Prepare(
    std::shared_ptr<const SubGraphSource> source, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making, SamplingObserver* observer,
    const PlanFirstWindow& plan_first) {
  PH_RETURN_IF_ERROR(CheckSamples(request));
  const SamplesRequest& samples = *request.Find<SamplesRequest>();
  PH_RETURN_IF_ERROR(source->CheckSeeds(samples.seeds));
  if (request.whole_graphs) {
    PH_RETURN_IF_ERROR(source->CheckHasReadout(samples.seeds));
  }
  auto epoch = std::shared_ptr<SampledEpoch>(
      new SampledEpoch(std::move(source), request, bounds, making.memory(), observer));
  if (epoch->num_items_ == 0) return absl::InvalidArgumentError("samples.seeds: there are none");
  if (epoch->num_seeds_ > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples.seeds: ", epoch->num_seeds_, ", at most 2^32 - 1"));
  }
  const uint64_t num_windows =
      (epoch->num_items_ + epoch->window_items_ - 1) / epoch->window_items_;
  if (num_windows > kMaxWindows) {
    return absl::InvalidArgumentError(
        absl::StrCat("samples.window: ", epoch->window_items_, " makes ", num_windows,
                     " windows of ", epoch->num_items_, " sub-graphs, at most ", kMaxWindows));
  }
  const BatchShapeOptions options = {
      request.padding,        request.derived,  request.whole_graphs, bounds.max_graphs_per_batch,
      bounds.max_batch_bytes, request.min_rows, request.integer_width};
  PH_RETURN_IF_ERROR(epoch->shapes_.AddRankGroup(epoch->source_->schema(),
                                                 request.rank_groups[0].shapes, options));
  const BatchShape& shape = epoch->shapes_.rank_group(0)[0];
  if (epoch->draws_smaller_) {
    for (size_t k = 0; k < epoch->schema().num_components(); ++k) {
      epoch->limits_.push_back(static_cast<uint32_t>(
          std::min<uint64_t>(shape.LargestGraph(k), std::numeric_limits<uint32_t>::max())));
    }
  }
  EpochIdentity& identity = epoch->identity_;
  identity.key = request.key;
  identity.dataset = epoch->source_->request().graph;
  identity.dataset_version = epoch->source_->graph().version();
  identity.seed = request.seed;
  const uint32_t num_ranks = request.cost_balanced ? request.rank_groups[0].num_ranks : 0;
  identity.rank_groups = {{shape.capacities, num_ranks, epoch->num_items_}};
  identity.num_windows = num_windows;
  identity.options = absl::StrCat(request.Words(), "; planner ", PlannerOf(request, shape.packed),
                                  "; rules ", kRulesVersion);
  PH_RETURN_IF_ERROR(CheckBatchCounts(identity));
  PH_ASSIGN_OR_RETURN(epoch->order_memory_,
                      making.Hold(absl::StrCat("an epoch of ", epoch->num_seeds_, " seeds"),
                                  sizeof(uint32_t) * epoch->num_seeds_));
  PH_RETURN_IF_ERROR(epoch->OrderSeeds(epoch->seed_, making, epoch->order_));
  const bool plans_all = samples.exact_steps || request.use == EpochUse::kEvaluation;
  if (plan_first != nullptr && !plans_all) {
    PH_RETURN_IF_ERROR(plan_first(epoch));
    return epoch;
  }
  const uint64_t planned = plans_all ? num_windows : 1;
  for (uint64_t window = 0; window < planned; ++window) {
    PH_RETURN_IF_ERROR(epoch->Plan(window, making));
  }
  return epoch;
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
  const EpochWindows& windows = *epoch.windows();
  const bool plans_all = exact_steps || request.use == EpochUse::kEvaluation;
  for (uint64_t next = windows.Counts().size(); plans_all && next < windows.num_windows(); ++next) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(windows.Plan(next, making));
  }
  return absl::OkStatus();
}

absl::Status SampledEpoch::OrderSeeds(const EpochSeed& seed, const Making& making,
                                      std::vector<uint32_t>& order) const {
  order.resize(num_seeds_);
  std::iota(order.begin(), order.end(), uint32_t{0});
  if (request_.in_order) return absl::OkStatus();
  SeededRandom random(SequenceStart(seed, DrawPurpose::kSeeds));
  return Shuffle(absl::MakeSpan(order), random, making);
}

uint64_t SampledEpoch::bytes() const {
  constexpr uint64_t kBesides = 16384;
  return kBesides + sizeof(uint32_t) * order_.size() +
         (seeds_memory_ == nullptr ? 0 : seeds_memory_->bytes());
}

uint64_t SampledEpoch::IdOf(uint64_t item) const {
  return source_->request().seeds_per_graph == 1 ? order_[item] : item;
}

SubGraphDrawer::Draw SampledEpoch::DrawOf(const EpochSeed& seed, absl::Span<const uint32_t> order,
                                          uint64_t item, SeedRows& rows) const {
  const uint64_t per_graph = source_->request().seeds_per_graph;
  const size_t ends = source_->nodes_per_graph() / per_graph;
  rows.nodes.clear();
  rows.occurrences.clear();
  for (uint64_t i = item * per_graph; i < std::min(num_seeds_, (item + 1) * per_graph); ++i) {
    for (size_t j = 0; j < ends; ++j) {
      rows.nodes.push_back(
          seeds_.nodes == nullptr ? order[i] : (*seeds_.nodes)[uint64_t{order[i]} * ends + j]);
    }
    if (!seeds_.occurrences.empty()) rows.occurrences.push_back(seeds_.occurrences[order[i]]);
  }
  SubGraphDrawer::Draw draw;
  draw.seed_number = seed.seed;
  draw.epoch = seed.epoch;
  draw.seeds = rows.nodes;
  draw.occurrences = rows.occurrences;
  if (!seeds_.times.empty()) draw.time = seeds_.times[order[item]];
  return draw;
}

std::vector<uint64_t> SampledEpoch::RowsOf(uint64_t item) const {
  const uint64_t per_graph = source_->request().seeds_per_graph;
  std::vector<uint64_t> rows;
  for (uint64_t i = item * per_graph; i < std::min(num_seeds_, (item + 1) * per_graph); ++i) {
    rows.push_back(order_[i]);
  }
  return rows;
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
  PH_ASSIGN_OR_RETURN(SubGraphDrawer drawer,
                      SubGraphDrawer::Create(source_, limits_, memory_, observer_));
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

absl::StatusOr<SampledEpoch::Window> SampledEpoch::Planned(const EpochSeed& seed,
                                                           absl::Span<const uint32_t> order,
                                                           uint64_t window, uint64_t num_before,
                                                           const Making& making) const {
  PH_ASSIGN_OR_RETURN(std::unique_ptr<SubGraphDrawer> drawer, TakeDrawer());
  const uint64_t first = FirstItem(window);
  const uint64_t count = std::min(num_items_ - first, window_items_);
  SeedRows rows;
  uint64_t last = first;
  EpochRequest of_window = request_;
  of_window.seed = SeededRandom(seed.seed ^ (window + 1)).Next();
  of_window.key.epoch = seed.epoch;
  BeginAt({num_before}, of_window);
  auto planned = PlanWindow(count, schema().sizes(), of_window, shapes_, bounds_.max_batch_bytes,
                            making, [&](size_t item) -> absl::StatusOr<DrawnSize> {
                              last = first + item;
                              SubGraphDrawer::Draw draw = DrawOf(seed, order, last, rows);
                              draw.edge_numbers = false;
                              PH_RETURN_IF_ERROR(drawer->Next(draw));
                              return DrawnSize{drawer->tuple(), drawer->level()};
                            });
  GiveBack(std::move(drawer));
  if (absl::IsOutOfRange(planned.status())) {
    return absl::OutOfRangeError(absl::StrCat("sub-graph ", IdOf(last), " of seed node ",
                                              rows.nodes[0], ": ", planned.status().message()));
  }
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
  PH_ASSIGN_OR_RETURN(Window made, Planned(seed_, order_, window, before.num_batches, making));
  absl::MutexLock lock(&mutex_);
  // Somebody else may have planned it meanwhile.
  for (const auto& [number, kept] : kept_) {
    if (number == window) return kept;
  }
  if (window == 0) steps_ = made->steps;
  kept_.emplace_front(window, made);
  if (kept_.size() > std::max(most_kept_, kKeptWindows)) kept_.pop_back();
  if (ends_.size() == window) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + made->batches.num_batches());
  }
  return made;
}

SampledEpoch::Known SampledEpoch::KnownBefore(uint64_t window) const {
  absl::MutexLock lock(&mutex_);
  const uint64_t num_windows = std::min<uint64_t>(window, ends_.size());
  return {num_windows, num_windows == 0 ? 0 : ends_[num_windows - 1]};
}

std::optional<StepFigures> SampledEpoch::steps() const {
  absl::MutexLock lock(&mutex_);
  return steps_;
}

absl::StatusOr<std::optional<Company>> SampledEpoch::MeasureCompany(const Making& making) const {
  if (!plans_all_ || source_->request().seeds_per_graph != 1) return std::nullopt;
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
                      making.Hold(absl::StrCat("company of ", num_seeds_, " seeds"),
                                  3 * sizeof(uint32_t) * num_seeds_));
  std::vector<uint32_t> order;
  PH_RETURN_IF_ERROR(OrderSeeds(neighbour, making, order));
  std::vector<uint32_t> batch_of(num_seeds_, kNowhere);
  uint32_t num_batches = 0;
  for (uint64_t w = 0; w < num_windows(); ++w) {
    PH_ASSIGN_OR_RETURN(const Window window, Planned(neighbour, order, w, num_batches, making));
    for (size_t b = 0; b < window->batches.num_batches(); ++b, ++num_batches) {
      for (const uint32_t item : window->batches.batch(b)) {
        batch_of[order[FirstItem(w) + item]] = num_batches;
      }
    }
  }
  PairCounter counter(batch_of, num_batches);
  uint64_t together = 0;
  uint64_t pairs = 0;
  std::vector<uint32_t> seeds;
  for (uint64_t w = 0; w < num_windows(); ++w) {
    PH_ASSIGN_OR_RETURN(const Window window, WindowAt(w, making));
    for (size_t b = 0; b < window->batches.num_batches(); ++b) {
      seeds.clear();
      for (const uint32_t item : window->batches.batch(b)) {
        seeds.push_back(order_[FirstItem(w) + item]);
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
  uint64_t before = 0;
  absl::MutexLock lock(&mutex_);
  for (const uint64_t end : ends_) {
    counts.push_back(static_cast<uint32_t>(end - before));
    before = end;
  }
  return counts;
}

absl::Status SampledEpoch::Learn(absl::Span<const uint32_t> counts) const {
  absl::MutexLock lock(&mutex_);
  uint64_t end = 0;
  for (size_t window = 0; window < counts.size(); ++window) {
    end += counts[window];
    if (window == ends_.size() && window < identity_.num_windows) ends_.push_back(end);
    if (window < ends_.size() && ends_[window] == end) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("samples: window ", window, " had ", counts[window],
                     " batches when it was planned first, and has another number now"));
  }
  return absl::OkStatus();
}

std::pair<uint64_t, size_t> SampledEpoch::PlaceOf(uint64_t number) const {
  absl::MutexLock lock(&mutex_);
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), number);
  const uint64_t begin = end == ends_.begin() ? 0 : *std::prev(end);
  return {static_cast<uint64_t>(end - ends_.begin()), number - begin};
}

std::optional<uint64_t> SampledEpoch::FirstMissing(absl::Span<const uint64_t> batches) const {
  std::set<uint64_t> windows;
  for (const uint64_t batch : batches) windows.insert(PlaceOf(batch).first);
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
  const auto [window, index] = PlaceOf(number);
  const auto found = WindowAt(window, Making(memory_, nullptr));
  return found.ok() ? (*found)->batches.batch(index).size() : 0;
}

absl::StatusOr<GraphChunk> SampledEpoch::DrawBatch(const SampleWindow& window, uint64_t first_item,
                                                   absl::Span<const uint32_t> items,
                                                   SubGraphDrawer& drawer, MemoryHold& memory,
                                                   BuiltBatch& built) const {
  SampledChunk chunk(&source_->sampled_schema());
  std::vector<uint64_t> ids;
  std::vector<uint32_t> sizes;
  SeedRows rows;
  SeedReadout readout;
  for (const uint32_t item : items) {
    SubGraphDrawer::Draw draw = DrawOf(seed_, order_, first_item + item, rows);
    draw.level = window.LevelOf(item);
    draw.edge_numbers = request_.whole_graphs;
    PH_RETURN_IF_ERROR(drawer.Next(draw));
    ids.push_back(IdOf(first_item + item));
    if (draw.level != 0) built.drawn_smaller.emplace_back(ids.back(), draw.level);
    if (!request_.whole_graphs) {
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
    PH_RETURN_IF_ERROR(
        drawer.AppendTo(chunk, seeds_.readout == nullptr
                                   ? ReadoutRows()
                                   : readout.Gather(*source_, seeds_, RowsOf(first_item + item))));
  }
  if (request_.whole_graphs) {
    PH_ASSIGN_OR_RETURN(GraphChunk drawn, chunk.Finish(0));
    return WithGraphIds(std::move(drawn), std::move(ids));
  }
  PH_ASSIGN_OR_RETURN(SizeTable table, SizeTable::WithIds(items.size(), schema().num_components(),
                                                          std::move(sizes), std::move(ids)));
  return GraphChunk::OfSizes(&schema(), std::move(table));
}

absl::StatusOr<BuiltBatch> SampledEpoch::Build(uint64_t number) const {
  const auto [number_of_window, index] = PlaceOf(number);
  PH_ASSIGN_OR_RETURN(const Window window, WindowAt(number_of_window, Making(memory_, nullptr)));
  const absl::Span<const uint32_t> items = window->batches.batch(index);
  PH_ASSIGN_OR_RETURN(std::unique_ptr<SubGraphDrawer> drawer, TakeDrawer());
  MemoryHold memory;
  BuiltBatch built;
  const auto drawn = DrawBatch(*window, FirstItem(number_of_window), items, *drawer, memory, built);
  GiveBack(std::move(drawer));
  PH_RETURN_IF_ERROR(drawn.status());
  std::vector<GraphRef> refs;
  for (size_t i = 0; i < items.size(); ++i) refs.push_back({&*drawn, i});
  const BatchLayout& layout = shapes(0)[0].layout;
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
