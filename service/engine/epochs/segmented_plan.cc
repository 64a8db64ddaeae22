#include "service/engine/epochs/segmented_plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/lower_bound.h"
#include "service/algorithms/planning/optimizer/plan_optimizer.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/option_rules.h"
#include "service/engine/epochs/pattern_planning.h"
#include "service/stores/datasets/reader_bytes.h"

namespace packhouse {
namespace {

absl::Status CheckSegmented(const EpochRequest& request, const DatasetInfo& dataset) {
  PH_RETURN_IF_ERROR(CheckSealed(dataset));
  PH_RETURN_IF_ERROR(CheckTogether(EngineRules(), request));
  PH_RETURN_IF_ERROR(CheckCostOrder(request));
  if (request.segments->graphs == 0) {
    return absl::InvalidArgumentError("segments.graphs: 0, must be at least 1");
  }
  if (request.segments->tracks == 0 || request.segments->tracks > SegmentsRequest::kMaxTracks) {
    return absl::InvalidArgumentError(absl::StrCat("segments.tracks: ", request.segments->tracks,
                                                   ", must be 1 to ", SegmentsRequest::kMaxTracks));
  }
  return absl::OkStatus();
}

// Of what an epoch's batches are drawn from: the sizes, and how many of which go together. It does
// not tell who found that, so another release that finds the same may go on with it.
uint64_t DigestOf(const PlannerResult& planned) {
  constexpr size_t kBlock = 4096;
  Digest digest;
  std::string bytes;
  const auto add = [&](uint64_t number) {
    for (size_t i = 0; i < sizeof(number); ++i) bytes += static_cast<char>(number >> (8 * i));
    if (bytes.size() < kBlock) return;
    digest.AddBytes(bytes);
    bytes.clear();
  };
  add(planned.num_components);
  add(planned.tuples.size());
  for (const uint32_t size : planned.tuples) add(size);
  for (const Pattern& pattern : planned.patterns[0]) {
    add(pattern.repeats);
    add(pattern.entries.size());
    for (const auto& [tuple, copies] : pattern.entries) add(uint64_t{tuple} << 32 | copies);
  }
  digest.AddBytes(bytes);
  uint64_t number = 0;
  return absl::SimpleHexAtoi(digest.Hex(sizeof(number)), &number) ? number : 0;
}

// Of the batches of a segment.
absl::StatusOr<uint64_t> DigestOf(const EpochPlan& plan, const Making& making) {
  if (!plan.planned()->patterns.empty()) return DigestOf(*plan.planned());
  PH_ASSIGN_OR_RETURN(const auto batches, plan.BatchesOf({}, making));
  Digest digest;
  for (uint64_t b = 0; b < batches->num_batches(); ++b) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(b));
    digest.Add(uint64_t{batches->batch(b).size()});
    for (const uint32_t item : batches->batch(b)) digest.Add(uint64_t{item});
  }
  uint64_t number = 0;
  return absl::SimpleHexAtoi(digest.Hex(sizeof(number)), &number) ? number : 0;
}

}  // namespace

SegmentedPlan::SegmentedPlan(std::shared_ptr<const DatasetChunks> chunks, EpochRequest request,
                             const EpochBounds& bounds, MemoryHold memory)
    : chunks_(std::move(chunks)),
      request_(std::move(request)),
      bounds_(bounds),
      layout_(chunks_->num_graphs(), request_.segments->graphs, request_.seed,
              chunks_->info().version, request_.in_order),
      memory_(std::move(memory)) {}

absl::StatusOr<std::shared_ptr<const SegmentedPlan>> SegmentedPlan::Make(
    std::shared_ptr<const DatasetChunks> chunks, const EpochRequest& request,
    const EpochBounds& bounds, const Making& making, const std::optional<KeptPlannerResult>& given,
    MemoryHold opening) {
  PH_RETURN_IF_ERROR(CheckSegmented(request, chunks->info()));
  MemoryHold of_subset;
  if (request.subset) {
    // Ranges twice while they are checked; with a bit for each id that is found.
    const uint64_t ids = request.subset->ids.size();
    PH_ASSIGN_OR_RETURN(
        of_subset,
        making.Hold("a subset of segments",
                    sizeof(uint64_t) * (ids + 4 * request.subset->ranges.size()) + ids / 8));
  }
  EpochRequest own = request;
  if (own.subset) {
    PH_ASSIGN_OR_RETURN(auto whole, SubsetOfWhole(*std::move(own.subset)));
    own.subset = SubsetRequest{{}, {}, std::move(whole)};
  }
  // The layout: the chunks' numbers, and some numbers for each of fewer segments.
  const uint64_t num_chunks = chunks->num_graphs().size();
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      making.Hold(absl::StrCat("segments of ", num_chunks, " chunks of data set '",
                                               chunks->info().name, "'"),
                                  chunks->bytes() + 3 * sizeof(uint64_t) * (num_chunks + 64)));
  auto plan = std::shared_ptr<SegmentedPlan>(
      new SegmentedPlan(std::move(chunks), std::move(own), bounds, std::move(memory)));
  plan->of_subset_ = std::move(of_subset);
  opening.Reset();
  if (plan->layout_.max_graphs() > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(absl::StrCat(
        "segments.graphs: ", request.segments->graphs, ", makes a segment of ",
        plan->layout_.max_graphs(), " graphs, an epoch takes at most ", ItemSizes::kMaxItems));
  }
  for (size_t i = 0; i < plan->layout_.num_segments(); ++i) {
    const absl::Status fits = plan->chunks_->CheckFits(plan->layout_.chunks(i));
    if (fits.ok()) continue;
    return absl::Status(fits.code(),
                        absl::StrCat("segments.graphs: ", request.segments->graphs, ", segment ", i,
                                     " of ", plan->layout_.num_segments(), ": ", fits.message()));
  }
  const BatchShapeOptions options = {
      request.padding,        request.derived,  request.whole_graphs, bounds.max_graphs_per_batch,
      bounds.max_batch_bytes, request.min_rows, request.integer_width};
  PH_RETURN_IF_ERROR(
      plan->shapes_.AddRankGroup(plan->schema(), request.rank_groups[0].shapes, options));
  if (given &&
      (!given->is_of_other_epoch || absl::StartsWith(given->receipt, plan->PlannerWords()))) {
    PH_ASSIGN_OR_RETURN(std::shared_ptr<const PlannerResult> found, given->read());
    PH_RETURN_IF_ERROR(plan->CheckGiven(*found));
    plan->planned_ = std::move(found);
  } else {
    PH_RETURN_IF_ERROR(plan->Count(making));
  }
  plan->Summarize();
  return plan;
}

std::string SegmentedPlan::PlannerWords() const {
  OptimizerOptions options;
  options.steps = bounds_.planner_steps.value_or(options.steps);
  Digest digest;
  digest.Add(PlanReceipt(SizeHistogram(schema().num_components()), shapes()[0].packed, options));
  if (request_.in_order) digest.Add(kInOrderVersion);
  return absl::StrCat(kSegmentsReceipt, digest.Hex(8), "-");
}

absl::Status SegmentedPlan::CheckGiven(const PlannerResult& given) const {
  const auto loss = [&](absl::string_view why) {
    return absl::DataLossError(absl::StrCat("plan ", given.receipt, ": ", why));
  };
  if (given.segments.num_batches.size() != layout_.num_segments()) {
    return loss(absl::StrCat("is for ", given.segments.num_batches.size(), " segments, there are ",
                             layout_.num_segments()));
  }
  if (given.shapes != shapes_.Capacities() ||
      given.segments.rows.size() != shapes()[0].capacities.size()) {
    return loss("is for other limits");
  }
  return absl::OkStatus();
}

absl::StatusOr<SizeHistogram> SegmentedPlan::SizesOf(
    uint32_t segment, ChunkSizes& chunk_sizes, const Making& making,
    absl::FunctionRef<bool(const absl::Status&)> makes_room, MemoryHold& memory,
    uint64_t& num_oversize) const {
  const size_t l = schema().num_components();
  const std::string what = absl::StrCat("sizes of segment ", segment);
  // Room is made where it is missing, since what was read is not read again.
  const auto hold = [&](absl::string_view of, uint64_t bytes) {
    auto held = making.Hold(of, bytes);
    return makes_room(held.status()) ? making.Hold(of, bytes) : std::move(held);
  };
  PH_ASSIGN_OR_RETURN(memory, hold(what, SizeHistogram::BytesFor(1, l)));
  SizeHistogram sizes(l);
  for (const uint32_t chunk : layout_.chunks(segment)) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    // Most sizes come again and again, so there is rarely more to reserve.
    const uint64_t bytes =
        SizeHistogram::BytesFor(sizes.num_distinct() + chunks_->num_graphs()[chunk], l) +
        sizeof(uint32_t) * l * chunks_->num_graphs()[chunk];
    if (bytes > memory.bytes()) {
      absl::Status grown = making.Grow(what, bytes - memory.bytes(), memory);
      if (makes_room(grown)) grown = making.Grow(what, bytes - memory.bytes(), memory);
      PH_RETURN_IF_ERROR(grown);
    }
    PH_RETURN_IF_ERROR(chunk_sizes.AddNext(sizes));
  }
  const Limits& limits = shapes()[0].packed;
  uint64_t num_sizes = 0;
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    if (limits.FirstExceeded(sizes.tuple(row))) ++num_sizes;
  }
  PH_ASSIGN_OR_RETURN(const MemoryHold of_oversize,
                      hold(absl::StrCat(what, " beyond the limits"),
                           (sizeof(SizeTuple) + sizeof(uint32_t) * l) * num_sizes));
  std::vector<SizeTuple> oversize;
  oversize.reserve(num_sizes);
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    const absl::Span<const uint32_t> tuple = sizes.tuple(row);
    if (limits.FirstExceeded(tuple)) oversize.emplace_back(tuple.begin(), tuple.end());
  }
  num_oversize = 0;
  for (const SizeTuple& tuple : oversize) {
    const uint64_t count = sizes.CountOf(tuple);
    num_oversize += count;
    PH_RETURN_IF_ERROR(sizes.Remove(tuple, count));
  }
  return sizes;
}

absl::Status SegmentedPlan::CountSegment(uint32_t segment, ChunkSizes& chunk_sizes,
                                         const Making& making, std::optional<SizeHistogram>& all,
                                         MemoryHold& memory, PlannerResult& found) {
  // The sizes of all segments are for the bound alone: they go when a segment needs their memory.
  const auto makes_room = [&](const absl::Status& status) {
    if (!absl::IsResourceExhausted(status) || !all) return false;
    all.reset();
    memory.Reset();
    return true;
  };
  MemoryHold of_sizes;
  uint64_t num_oversize = 0;
  PH_ASSIGN_OR_RETURN(const SizeHistogram sizes,
                      SizesOf(segment, chunk_sizes, making, makes_room, of_sizes, num_oversize));
  // Reading the graphs finds the first that is too large.
  if (num_oversize != 0 && request_.oversize_is_error) {
    PH_RETURN_IF_ERROR(PlanOf(segment, making).status());
  }
  PlannerResult planned;
  MemoryHold of_plan;
  const auto plan = [&]() -> absl::StatusOr<EpochFigures> {
    of_plan.Reset();
    planned = {};
    PH_ASSIGN_OR_RETURN(
        of_plan, PlanHistogram(sizes, shapes()[0].packed, bounds_.planner_steps, making, planned));
    return FiguresOfPatterns(
        shapes_, planned.tuples, planned.num_components, planned.patterns,
        request_.whole_graphs ? std::optional(bounds_.max_batch_bytes) : std::nullopt, making);
  };
  auto found_figures = plan();
  if (makes_room(found_figures.status())) found_figures = plan();
  PH_ASSIGN_OR_RETURN(const EpochFigures figures, std::move(found_figures));
  const ShapeSummary& summary = figures.shapes[0][0];
  SegmentCounts& counts = found.segments;
  counts.num_batches.push_back(static_cast<uint32_t>(summary.num_batches));
  counts.digests.push_back(DigestOf(planned));
  counts.num_graphs += sizes.num_graphs();
  counts.num_oversize += num_oversize;
  const size_t l = schema().num_components();
  for (size_t k = 0; k <= l; ++k) {
    counts.rows[k] += k < l ? sizes.total(k) : sizes.num_graphs();
    counts.fullest[k] = std::max(counts.fullest[k], summary.components[k].fullest_pack);
  }
  if (layout_.num_segments() > 1) return AddToAll(sizes, making, all, memory);
  found.lower_bound = planned.lower_bound;
  return absl::OkStatus();
}

absl::Status SegmentedPlan::AddToAll(const SizeHistogram& sizes, const Making& making,
                                     std::optional<SizeHistogram>& all, MemoryHold& memory) const {
  if (!all) return absl::OkStatus();
  const uint64_t bytes =
      SizeHistogram::BytesFor(all->num_distinct() + sizes.num_distinct(), sizes.num_components());
  if (bytes > memory.bytes()) {
    const absl::Status grown = making.Grow("sizes of all segments", bytes - memory.bytes(), memory);
    // They are for the bound alone, which an epoch can do without.
    if (absl::IsResourceExhausted(grown)) {
      all.reset();
      memory.Reset();
      return absl::OkStatus();
    }
    PH_RETURN_IF_ERROR(grown);
  }
  return all->Merge(sizes);
}

absl::Span<const uint64_t> SegmentedPlan::SubsetIds() const {
  if (!request_.subset) return {};
  return request_.subset->of_whole->ids;
}

absl::Status SegmentedPlan::CheckFound(const std::vector<bool>& is_found) const {
  const auto missing = std::find(is_found.begin(), is_found.end(), false);
  if (missing == is_found.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("subset: data set '", dataset().name, "' has no graph with id ",
                   SubsetIds()[static_cast<size_t>(missing - is_found.begin())]));
}

absl::Status SegmentedPlan::CountGraphs(uint32_t segment, const Making& making,
                                        std::optional<SizeHistogram>& all, MemoryHold& memory,
                                        std::vector<bool>& is_found, PlannerResult& found) {
  auto made = PlanOf(segment, making);
  // As in CountSegment().
  if (absl::IsResourceExhausted(made.status()) && all) {
    all.reset();
    memory.Reset();
    made = PlanOf(segment, making);
  }
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<const EpochPlan> plan, std::move(made));
  const absl::Span<const uint64_t> ids = SubsetIds();
  for (const uint64_t id : plan->reader().graph_ids()) {
    const auto at = std::lower_bound(ids.begin(), ids.end(), id);
    if (at != ids.end() && *at == id) is_found[static_cast<size_t>(at - ids.begin())] = true;
  }
  const PlannerResult& planned = *plan->planned();
  SegmentCounts& counts = found.segments;
  PH_ASSIGN_OR_RETURN(const uint64_t digest, DigestOf(*plan, making));
  counts.num_batches.push_back(static_cast<uint32_t>(plan->num_batches(0)));
  counts.digests.push_back(digest);
  counts.num_graphs += plan->num_graphs();
  counts.num_oversize += plan->num_oversize();
  for (size_t k = 0; k < counts.fullest.size(); ++k) {
    counts.fullest[k] =
        std::max(counts.fullest[k], plan->summaries(0)[0].components[k].fullest_pack);
  }
  std::vector<uint64_t> packed(counts.rows.size());
  const absl::Span<uint64_t> rows = absl::MakeSpan(packed);
  // Packed sizes are those above the minimums.
  const auto add_rows = [&] {
    for (size_t k = 0; k < packed.size(); ++k) {
      counts.rows[k] += request_.min_rows.RealRows(k, packed[k], packed.back());
    }
  };
  if (planned.patterns.empty()) {
    PH_ASSIGN_OR_RETURN(const auto batches, plan->BatchesOf({}, making));
    const ItemSizes items = plan->items();
    for (uint64_t b = 0; b < batches->num_batches(); ++b) {
      for (const uint32_t item : batches->batch(b)) AddRows(items.tuple(item), 1, rows);
    }
    add_rows();
    // Nobody knows how few batches an order might have.
    all.reset();
    memory.Reset();
    return absl::OkStatus();
  }
  const size_t l = planned.num_components;
  PH_ASSIGN_OR_RETURN(
      const MemoryHold of_sizes,
      making.Hold(absl::StrCat("sizes of segment ", segment),
                  SizeHistogram::BytesFor(planned.tuples.size() / std::max<size_t>(l, 1), l)));
  SizeHistogram sizes(l);
  for (const Pattern& pattern : planned.patterns[0]) {
    for (const auto& [number, copies] : pattern.entries) {
      const auto tuple = absl::MakeConstSpan(planned.tuples).subspan(number * l, l);
      AddRows(tuple, pattern.repeats * copies, rows);
      PH_RETURN_IF_ERROR(sizes.Add(tuple, pattern.repeats * copies));
    }
  }
  add_rows();
  if (layout_.num_segments() > 1) return AddToAll(sizes, making, all, memory);
  found.lower_bound = planned.lower_bound;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> SegmentedPlan::BoundOf(const SizeHistogram& all,
                                                const Making& making) const {
  PlannerResult planned;
  const auto memory =
      PlanHistogram(all, shapes()[0].packed, bounds_.planner_steps, making, planned);
  if (memory.ok()) return planned.lower_bound;
  // A weaker bound needs no room.
  if (!absl::IsResourceExhausted(memory.status())) return memory.status();
  return ComputeVolumeBound(all, shapes()[0].packed).packs;
}

uint64_t SegmentedPlan::VolumeOf(const SegmentCounts& counts) const {
  const Limits& limits = shapes()[0].packed;
  uint64_t packs = 0;
  for (size_t k = 0; k < counts.rows.size(); ++k) {
    if (!limits.has_limit(k) || counts.rows[k] == 0) continue;
    packs = std::max(packs, (counts.rows[k] - 1) / limits.capacity(k) + 1);
  }
  return packs;
}

absl::Status SegmentedPlan::Count(const Making& making) {
  const size_t l = schema().num_components();
  auto found = std::make_shared<PlannerResult>();
  found->dataset_version = dataset().version;
  found->shapes = shapes_.Capacities();
  found->segments.num_batches.reserve(layout_.num_segments());
  found->segments.digests.reserve(layout_.num_segments());
  found->segments.rows.resize(l + 1, 0);
  found->segments.fullest.resize(l + 1, 0);
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      making.Hold("sizes of all segments", SizeHistogram::BytesFor(1, l)));
  std::optional<SizeHistogram> all(std::in_place, l);
  // Of one segment after the other.
  std::unique_ptr<ChunkSizes> sizes;
  MemoryHold of_reading;
  if (!NeedsGraphs()) {
    sizes = chunks_->ReadSizes(layout_.all_chunks());
    PH_ASSIGN_OR_RETURN(of_reading,
                        making.Hold("sizes that are read of the store", sizes->bytes()));
  }
  std::vector<bool> is_found(SubsetIds().size());
  for (uint32_t segment = 0; segment < layout_.num_segments(); ++segment) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(sizes != nullptr
                           ? CountSegment(segment, *sizes, making, all, memory, *found)
                           : CountGraphs(segment, making, all, memory, is_found, *found));
  }
  PH_RETURN_IF_ERROR(CheckFound(is_found));
  if (all && layout_.num_segments() > 1) {
    PH_ASSIGN_OR_RETURN(found->lower_bound, BoundOf(*all, making));
  } else if (!all && !request_.in_order && request_.min_rows.empty()) {
    found->lower_bound = VolumeOf(found->segments);
  }
  Digest digest;
  for (const uint64_t of_segment : found->segments.digests) digest.Add(of_segment);
  found->receipt = absl::StrCat(PlannerWords(), digest.Hex(16));
  planned_ = std::move(found);
  return absl::OkStatus();
}

void SegmentedPlan::Summarize() {
  const SegmentCounts& counts = planned_->segments;
  for (const uint32_t of_segment : counts.num_batches) summary_.num_batches += of_segment;
  for (size_t k = 0; k < counts.rows.size(); ++k) {
    ComponentEfficiency component;
    component.capacity = shapes()[0].capacities[k];
    component.fullest_pack = counts.fullest[k];
    const auto ratio = [&](uint64_t capacity) {
      const double laid_out =
          static_cast<double>(summary_.num_batches) * static_cast<double>(capacity);
      return laid_out == 0 ? 1 : static_cast<double>(counts.rows[k]) / laid_out;
    };
    component.efficiency = component.capacity == kUnlimited ? 1 : ratio(component.capacity);
    component.efficiency_of_fullest = ratio(component.fullest_pack);
    summary_.components.push_back(component);
  }
}

double SegmentedPlan::loss() const {
  if (lower_bound() == 0) return 0;
  return static_cast<double>(num_batches()) / static_cast<double>(lower_bound()) - 1;
}

uint64_t SegmentedPlan::bytes() const {
  return sizeof(SegmentedPlan) + chunks_->bytes() + layout_.bytes() + planned_->Bytes() +
         of_subset_.bytes();
}

uint64_t SegmentedPlan::BytesOfChunks(uint64_t num_graphs, uint64_t num_chunks) const {
  const uint64_t all_chunks = chunks_->num_graphs().size();
  const uint64_t records_of_chunk =
      all_chunks == 0
          ? 1
          : std::max<uint64_t>(1, (dataset().num_records + all_chunks - 1) / all_chunks);
  return BytesOfReader(dataset(), num_graphs, num_chunks * records_of_chunk);
}

uint64_t SegmentedPlan::BytesOfSegment() const {
  size_t most_chunks = 0;
  for (size_t i = 0; i < layout_.num_segments(); ++i) {
    most_chunks = std::max(most_chunks, layout_.chunks(i).size());
  }
  // Items, batches and patterns.
  constexpr uint64_t kBytesOfGraph = 24;
  return BytesOfChunks(layout_.max_graphs(), most_chunks) + kBytesOfGraph * layout_.max_graphs();
}

absl::StatusOr<std::shared_ptr<const EpochPlan>> SegmentedPlan::PlanOf(uint32_t segment,
                                                                       const Making& making,
                                                                       const MakeRoom& make_room,
                                                                       uint64_t first_batch) const {
  // Keeps its memory, and the data set.
  struct Opened {
    MemoryHold memory;
    std::shared_ptr<const DatasetChunks> chunks;
    std::shared_ptr<const DatasetReader> reader;
  };
  const auto opened = std::make_shared<Opened>();
  const absl::Span<const uint32_t> chunks = layout_.chunks(segment);
  PH_ASSIGN_OR_RETURN(opened->memory,
                      making.Hold(absl::StrCat("a reader of ", layout_.num_graphs(segment),
                                               " graphs of data set '", dataset().name, "'"),
                                  BytesOfChunks(layout_.num_graphs(segment), chunks.size())));
  opened->chunks = chunks_;
  auto reader = chunks_->Open(chunks);
  if (make_room && absl::IsResourceExhausted(reader.status())) {
    make_room([&] {
      reader = chunks_->Open(chunks);
      return !absl::IsResourceExhausted(reader.status());
    });
  }
  PH_ASSIGN_OR_RETURN(opened->reader, std::move(reader));
  PH_ASSIGN_OR_RETURN(
      std::shared_ptr<const EpochPlan> plan,
      EpochPlan::Make(std::shared_ptr<const DatasetReader>(opened, opened->reader.get()),
                      RequestOf(segment, {}, first_batch), bounds_, making));
  if (planned_ == nullptr) return plan;
  PH_ASSIGN_OR_RETURN(const uint64_t digest, DigestOf(*plan, making));
  if (plan->num_batches(0) != counts().num_batches[segment] ||
      digest != counts().digests[segment]) {
    return absl::FailedPreconditionError(
        absl::StrCat("plan ", receipt(), ": segment ", segment, " had ",
                     counts().num_batches[segment], " batches when it was planned first; this ",
                     "release plans it otherwise, with ", plan->num_batches(0)));
  }
  return plan;
}

EpochRequest SegmentedPlan::RequestOf(uint32_t segment, const EpochKey& key,
                                      uint64_t first_batch) const {
  EpochRequest request = request_;
  request.segments = std::nullopt;
  request.key = key;
  if (request.cost_balanced) {
    const uint32_t num_ranks = request.rank_groups[0].num_ranks;
    const auto in_step = static_cast<uint32_t>(first_batch % num_ranks);
    request.cost_balanced->num_first = in_step == 0 ? 0 : num_ranks - in_step;
  }
  // The seed of a segment's epochs; another for each.
  if (layout_.num_segments() > 1) {
    request.seed = SeededRandom(request_.seed ^ SeededRandom(uint64_t{segment} + 1).Next()).Next();
  }
  return request;
}

}  // namespace packhouse
