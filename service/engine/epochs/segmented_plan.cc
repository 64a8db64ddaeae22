#include "service/engine/epochs/segmented_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
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
#include "service/engine/epochs/pattern_planning.h"
#include "service/engine/epochs/request_check.h"
#include "service/engine/epochs/selection.h"
#include "service/stores/datasets/reader_bytes.h"

namespace packhouse {
namespace {

absl::Status CheckSegmented(const EpochRequest& request, const DatasetInfo& dataset) {
  PH_RETURN_IF_ERROR(CheckSealed(dataset));
  PH_RETURN_IF_ERROR(CheckRequest(request, dataset));
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
  for (const std::vector<Pattern>& patterns : planned.patterns) {
    if (&patterns != &planned.patterns[0]) add(patterns.size());
    for (const Pattern& pattern : patterns) {
      add(pattern.repeats);
      add(pattern.entries.size());
      for (const auto& [tuple, copies] : pattern.entries) add(uint64_t{tuple} << 32 | copies);
    }
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

// Whether one of the shapes takes a graph of these packed sizes.
bool Fits(const std::vector<const BatchShape*>& shapes, absl::Span<const uint32_t> packed) {
  return std::any_of(shapes.begin(), shapes.end(),
                     [&](const BatchShape* shape) { return !shape->packed.FirstExceeded(packed); });
}

}  // namespace

struct SegmentedPlan::Counting {
  PlannerResult found;
  // All sizes that fit, for the bound alone; unset if that is not asked for, or has no memory.
  std::optional<HeldSizes> all;
  // Of the ids of the subset, those that some segment so far has.
  std::vector<bool> is_found;

  // All sizes go when a segment needs their memory.
  bool MakesRoom(const absl::Status& status) {
    if (!absl::IsResourceExhausted(status) || !all) return false;
    all.reset();
    return true;
  }
};

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
  MemoryHold of_lists;
  if (request.subset) {
    // Ranges twice while they are checked; with a bit for each id that is found.
    const uint64_t ids = request.subset->ids.size();
    PH_ASSIGN_OR_RETURN(
        of_lists,
        making.Hold("a subset of segments",
                    sizeof(uint64_t) * (ids + 4 * request.subset->ranges.size()) + ids / 8));
  }
  const uint64_t num_chunks = chunks->num_graphs().size();
  MemoryHold of_draw;
  if (request.draw) {
    // Of each chunk a number, and sums of segments; of each weight as many, and as an integer, with
    // a bit.
    PH_ASSIGN_OR_RETURN(of_draw, making.Hold("a draw of segments",
                                             (1 + sizeof(uint32_t) + 2 * sizeof(uint64_t)) *
                                                 (request.draw->weights.size() + num_chunks + 64)));
  }
  EpochRequest own = request;
  if (own.subset) {
    PH_ASSIGN_OR_RETURN(auto whole, SubsetOfWhole(*std::move(own.subset)));
    own.subset = SubsetRequest{{}, {}, std::move(whole)};
  }
  // The layout: the chunks' numbers, and some numbers for each of fewer segments.
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      making.Hold(absl::StrCat("segments of ", num_chunks, " chunks of data set '",
                                               chunks->info().name, "'"),
                                  chunks->bytes() + 3 * sizeof(uint64_t) * (num_chunks + 64)));
  auto plan = std::shared_ptr<SegmentedPlan>(
      new SegmentedPlan(std::move(chunks), std::move(own), bounds, std::move(memory)));
  plan->of_lists_ = std::move(of_lists);
  plan->of_draw_ = std::move(of_draw);
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
  if (request.cuts_oversize) {
    PH_ASSIGN_OR_RETURN(PieceSchema pieces, PieceSchema::Create(*plan->dataset().schema));
    plan->piece_schema_ = std::make_shared<const PieceSchema>(std::move(pieces));
  }
  std::shared_ptr<const PlannerResult> found;
  const bool is_other = given && given->is_of_other_epoch;
  // What another epoch draws says nothing of this one.
  const bool is_of_use = given && !(is_other && request.draw);
  const bool has_device =
      std::any_of(request.rank_groups.begin(), request.rank_groups.end(),
                  [](const RankGroupRequest& rank_group) { return rank_group.device.has_value(); });
  // Shapes that are measured anew may be others.
  if (is_of_use && has_device && !(is_other && request.adaptive)) {
    PH_ASSIGN_OR_RETURN(found, given->read());
  }
  PH_RETURN_IF_ERROR(plan->SetShapes(found.get(), making));
  PH_RETURN_IF_ERROR(plan->SetShares(making));
  if (is_of_use && (!is_other || absl::StartsWith(given->receipt, plan->PlannerWords()))) {
    if (found == nullptr) {
      PH_ASSIGN_OR_RETURN(found, given->read());
    }
    PH_RETURN_IF_ERROR(plan->CheckGiven(*found));
    plan->planned_ = std::move(found);
  } else {
    found = nullptr;
    PH_RETURN_IF_ERROR(plan->Count(making));
  }
  plan->Summarize();
  return plan;
}

absl::Status SegmentedPlan::SetShapes(const PlannerResult* given, const Making& making) {
  for (size_t i = 0; given != nullptr && i < given->shapes.size(); ++i) {
    if (i < request_.rank_groups.size() && request_.rank_groups[i].device) {
      request_.rank_groups[i].present = given->shapes[i];
    }
  }
  const BatchShapeOptions options = {request_.padding,        request_.derived,
                                     request_.whole_graphs,   bounds_.max_graphs_per_batch,
                                     bounds_.max_batch_bytes, request_.min_rows,
                                     request_.integer_width};
  PH_ASSIGN_OR_RETURN(shapes_, ChooseShapes(
                                   request_.rank_groups, request_.adaptive && given == nullptr,
                                   schema(), options, [&] { return SizesOfAll(making); }, making));
  // Segments take these as they are.
  for (size_t i = 0; i < num_rank_groups(); ++i) {
    RankGroupRequest& rank_group = request_.rank_groups[i];
    if (rank_group.device) rank_group.present = shapes_.Capacities()[i];
  }
  request_.adaptive = false;
  return absl::OkStatus();
}

absl::StatusOr<HeldSizes> SegmentedPlan::SizesOfAll(const Making& making) const {
  const size_t l = schema().num_components();
  HeldSizes all = {MemoryHold(), SizeHistogram(l)};
  const auto reserve = [&](uint64_t num_graphs) -> absl::Status {
    constexpr absl::string_view kWhat = "sizes of all segments";
    const uint64_t bytes = SizeHistogram::BytesFor(all.sizes.num_distinct() + num_graphs, l);
    if (all.memory.bytes() != 0) {
      return bytes <= all.memory.bytes()
                 ? absl::OkStatus()
                 : making.Grow(kWhat, bytes - all.memory.bytes(), all.memory);
    }
    PH_ASSIGN_OR_RETURN(all.memory, making.Hold(kWhat, bytes));
    return absl::OkStatus();
  };
  if (request_.subset) {
    for (uint32_t segment = 0; segment < layout_.num_segments(); ++segment) {
      PH_RETURN_IF_ERROR(reserve(layout_.num_graphs(segment)));
      PH_RETURN_IF_ERROR(ForEachSelected(
          segment, making,
          [&](uint32_t, absl::Span<const uint32_t> sizes) { return all.sizes.Add(sizes); }));
    }
    return all;
  }
  const auto sizes = chunks_->ReadSizes(layout_.all_chunks());
  PH_ASSIGN_OR_RETURN(const MemoryHold of_reading,
                      making.Hold("sizes that are read of the store", sizes->bytes()));
  for (const uint32_t chunk : layout_.all_chunks()) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(reserve(chunks_->num_graphs()[chunk]));
    PH_RETURN_IF_ERROR(sizes->AddNext(all.sizes));
  }
  return all;
}

absl::StatusOr<std::vector<uint32_t>> SegmentedPlan::PlaceWeights(const Making& making) {
  const std::vector<double>& weights = request_.draw->weights;
  if (weights.empty()) return std::vector<uint32_t>();
  first_weights_.reserve(chunks_->num_graphs().size() + 1);
  first_weights_.push_back(0);
  for (const uint32_t of_chunk : chunks_->num_graphs()) {
    first_weights_.push_back(request_.subset ? 0 : of_chunk);
  }
  for (uint32_t segment = 0; request_.subset && segment < layout_.num_segments(); ++segment) {
    PH_RETURN_IF_ERROR(
        ForEachSelected(segment, making, [&](uint32_t chunk, absl::Span<const uint32_t>) {
          ++first_weights_[chunk + 1];
          return absl::OkStatus();
        }));
  }
  std::partial_sum(first_weights_.begin(), first_weights_.end(), first_weights_.begin());
  if (weights.size() != first_weights_.back()) {
    return absl::InvalidArgumentError(absl::StrCat("weights: ", weights.size(), ", there are ",
                                                   first_weights_.back(), " graphs to draw from"));
  }
  return IntegerWeights(weights);
}

absl::Status SegmentedPlan::SetShares(const Making& making) {
  if (!request_.draw) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> weights, PlaceWeights(making));
  const bool with_replacement = request_.draw->with_replacement;
  // What a segment draws depends on what the others draw.
  const bool is_one_draw = !with_replacement && !weights.empty() && layout_.num_segments() > 1;
  std::vector<bool> fits(is_one_draw ? weights.size() : 0);
  const std::vector<const BatchShape*> leading = shapes_.Leading();
  std::vector<uint32_t> packed(schema().num_components());
  std::vector<uint64_t> sums(layout_.num_segments());
  uint64_t num_graphs = 0;
  uint64_t num_positive = 0;
  for (uint32_t segment = 0; segment < layout_.num_segments(); ++segment) {
    std::optional<uint32_t> last_chunk;
    uint64_t next_weight = 0;
    PH_RETURN_IF_ERROR(
        ForEachSelected(segment, making, [&](uint32_t chunk, absl::Span<const uint32_t> sizes) {
          if (!weights.empty() && last_chunk != chunk) next_weight = first_weights_[chunk];
          last_chunk = chunk;
          const uint64_t of_graph = next_weight++;
          for (size_t k = 0; k < packed.size(); ++k) {
            packed[k] = request_.min_rows.PackedSize(k, sizes[k]);
          }
          if (!Fits(leading, packed)) return absl::OkStatus();
          if (is_one_draw) fits[of_graph] = true;
          ++num_graphs;
          const uint32_t weight = weights.empty() ? 1 : weights[of_graph];
          sums[segment] += weight;
          num_positive += weight != 0 ? 1 : 0;
          return absl::OkStatus();
        }));
  }
  const uint64_t asked_for = request_.draw->num_graphs;
  const uint64_t usual = with_replacement ? num_graphs : num_positive;
  const uint64_t count = asked_for != 0 && num_graphs != 0 ? asked_for : usual;
  if (count > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("draw: num_graphs ", count, ", at most ", ItemSizes::kMaxItems));
  }
  if (!with_replacement && count > num_positive) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sample: ", count, " items without replacement, ", num_positive, " have a weight above 0"));
  }
  if (count != 0 && std::all_of(sums.begin(), sums.end(), [](uint64_t sum) { return sum == 0; })) {
    return absl::InvalidArgumentError("weights: none is above 0");
  }
  if (is_one_draw) return DrawOnce(weights, fits, making);
  PH_ASSIGN_OR_RETURN(shares_, DrawShares(sums, count, with_replacement,
                                          {request_.seed, request_.key.epoch}, making));
  weights_.assign(weights.begin(), weights.end());
  request_.draw->weights = {};
  return absl::OkStatus();
}

absl::Status SegmentedPlan::DrawOnce(absl::Span<const uint32_t> weights,
                                     const std::vector<bool>& fits, const Making& making) {
  PH_ASSIGN_OR_RETURN(
      const MemoryHold drawing,
      making.Hold(absl::StrCat("a draw from ", weights.size(), " graphs of all segments"),
                  (kSamplingBytes + 3 * sizeof(uint32_t)) * weights.size()));
  std::vector<uint32_t> places;
  std::vector<uint32_t> weights_of_places;
  places.reserve(weights.size());
  weights_of_places.reserve(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    if (!fits[i]) continue;
    places.push_back(static_cast<uint32_t>(i));
    weights_of_places.push_back(weights[i]);
  }
  const uint64_t asked_for = request_.draw->num_graphs;
  PH_ASSIGN_OR_RETURN(
      const std::vector<uint32_t> drawn,
      DrawPlaces(weights_of_places, asked_for == 0 ? std::nullopt : std::optional(asked_for),
                 /*with_replacement=*/false, {request_.seed, request_.key.epoch}, making));
  request_.draw->weights = {};
  weights_.assign(weights.size(), 0);
  for (const uint32_t place : drawn) weights_[places[place]] = 1;
  // A segment draws all of its graphs that have a weight now.
  for (uint32_t segment = 0; segment < layout_.num_segments(); ++segment) {
    uint64_t& share = shares_.emplace_back(0);
    for (const uint32_t chunk : layout_.chunks(segment)) {
      for (uint64_t i = first_weights_[chunk]; i < first_weights_[chunk + 1]; ++i) {
        share += weights_[i] != 0 ? 1 : 0;
      }
    }
  }
  return absl::OkStatus();
}

std::string SegmentedPlan::PlannerWords() const {
  OptimizerOptions options;
  options.steps = bounds_.planner_steps.value_or(options.steps);
  Digest digest;
  const SizeHistogram empty(schema().num_components());
  for (size_t i = 0; i < num_rank_groups(); ++i) {
    for (const BatchShape& shape : shapes(i)) {
      digest.Add(PlanReceipt(empty, shape.packed, options));
    }
    if (num_rank_groups() > 1) digest.Add(uint64_t{request_.rank_groups[i].num_ranks});
  }
  if (request_.in_order) digest.Add(kInOrderVersion);
  return absl::StrCat(kSegmentsReceipt, digest.Hex(8), "-");
}

absl::Status SegmentedPlan::CheckGiven(const PlannerResult& given) const {
  const auto loss = [&](absl::string_view why) {
    return absl::DataLossError(absl::StrCat("plan ", given.receipt, ": ", why));
  };
  const SegmentCounts& counts = given.segments;
  if (counts.digests.size() != layout_.num_segments()) {
    return loss(absl::StrCat("is for ", counts.digests.size(), " segments, there are ",
                             layout_.num_segments()));
  }
  if (given.shapes != shapes_.Capacities() ||
      counts.num_batches.size() != num_rank_groups() * layout_.num_segments() ||
      counts.of_shapes.size() != shapes_.num_shapes() ||
      counts.rows.size() != counts.of_shapes.size() * shapes(0)[0].capacities.size() ||
      counts.fullest.size() != counts.rows.size()) {
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
  const std::vector<const BatchShape*> leading = shapes_.Leading();
  uint64_t num_sizes = 0;
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    if (!Fits(leading, sizes.tuple(row))) ++num_sizes;
  }
  PH_ASSIGN_OR_RETURN(const MemoryHold of_oversize,
                      hold(absl::StrCat(what, " beyond the limits"),
                           (sizeof(SizeTuple) + sizeof(uint32_t) * l) * num_sizes));
  std::vector<SizeTuple> oversize;
  oversize.reserve(num_sizes);
  for (size_t row = 0; row < sizes.num_distinct(); ++row) {
    const absl::Span<const uint32_t> tuple = sizes.tuple(row);
    if (!Fits(leading, tuple)) oversize.emplace_back(tuple.begin(), tuple.end());
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
                                         const Making& making, Counting& counting) {
  const auto makes_room = [&](const absl::Status& status) { return counting.MakesRoom(status); };
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
    PH_ASSIGN_OR_RETURN(of_plan, PlanHistogram(sizes, shapes_.Packed(), request_.NumRanks(),
                                               bounds_.planner_steps, making, planned));
    return FiguresOfPatterns(
        shapes_, planned.tuples, planned.num_components, planned.patterns,
        request_.whole_graphs ? std::optional(bounds_.max_batch_bytes) : std::nullopt, making);
  };
  auto figures = plan();
  if (makes_room(figures.status())) figures = plan();
  PH_RETURN_IF_ERROR(figures.status());
  AddCounts(segment, *figures, DigestOf(planned), num_oversize, counting);
  if (layout_.num_segments() > 1) return AddToAll(sizes, making, counting);
  counting.found.lower_bound = planned.lower_bound;
  return absl::OkStatus();
}

void SegmentedPlan::AddCounts(uint32_t segment, const EpochFigures& figures, uint64_t digest,
                              uint64_t num_oversize, Counting& counting) const {
  SegmentCounts& counts = counting.found.segments;
  counts.digests.push_back(digest);
  counts.num_graphs += figures.num_graphs;
  counts.num_oversize += num_oversize;
  auto of_shape = counts.of_shapes.begin();
  auto rows = counts.rows.begin();
  auto fullest = counts.fullest.begin();
  for (size_t i = 0; i < figures.shapes.size(); ++i) {
    for (const ShapeSummary& summary : figures.shapes[i]) {
      *of_shape++ += summary.num_batches;
      counts.num_batches[i * layout_.num_segments() + segment] +=
          static_cast<uint32_t>(summary.num_batches);
      for (size_t k = 0; k < summary.rows.size(); ++k, ++rows, ++fullest) {
        *rows += summary.rows[k];
        *fullest = std::max(*fullest, summary.components[k].fullest_pack);
      }
    }
  }
}

absl::Status SegmentedPlan::AddToAll(const SizeHistogram& sizes, const Making& making,
                                     Counting& counting) const {
  if (!counting.all) return absl::OkStatus();
  auto& [memory, all] = *counting.all;
  const uint64_t bytes =
      SizeHistogram::BytesFor(all.num_distinct() + sizes.num_distinct(), sizes.num_components());
  if (bytes > memory.bytes()) {
    const absl::Status grown = making.Grow("sizes of all segments", bytes - memory.bytes(), memory);
    // They are for the bound alone, which an epoch can do without.
    if (counting.MakesRoom(grown)) return absl::OkStatus();
    PH_RETURN_IF_ERROR(grown);
  }
  return all.Merge(sizes);
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
                                        Counting& counting) {
  auto made = PlanOf(segment, making);
  if (counting.MakesRoom(made.status())) made = PlanOf(segment, making);
  PH_ASSIGN_OR_RETURN(const std::shared_ptr<const EpochPlan> plan, std::move(made));
  const absl::Span<const uint64_t> ids = SubsetIds();
  for (const uint64_t id : plan->reader().graph_ids()) {
    const auto at = std::lower_bound(ids.begin(), ids.end(), id);
    if (at != ids.end() && *at == id) {
      counting.is_found[static_cast<size_t>(at - ids.begin())] = true;
    }
  }
  PH_ASSIGN_OR_RETURN(const uint64_t digest, DigestOf(*plan, making));
  AddCounts(segment, plan->figures(), digest, plan->num_oversize(), counting);
  counting.found.segments.num_cut_graphs += plan->num_cut_graphs();
  counting.found.segments.num_pieces += plan->num_pieces();
  const PlannerResult& planned = *plan->planned();
  if (layout_.num_segments() == 1) counting.found.lower_bound = planned.lower_bound;
  if (!counting.all) return absl::OkStatus();
  const size_t l = planned.num_components;
  const absl::StatusOr<MemoryHold> of_sizes =
      making.Hold(absl::StrCat("sizes of segment ", segment),
                  SizeHistogram::BytesFor(planned.tuples.size() / std::max<size_t>(l, 1), l));
  // They are for the bound alone.
  if (counting.MakesRoom(of_sizes.status())) return absl::OkStatus();
  PH_RETURN_IF_ERROR(of_sizes.status());
  SizeHistogram sizes(l);
  for (const Pattern& pattern : planned.patterns[0]) {
    for (const auto& [number, copies] : pattern.entries) {
      PH_RETURN_IF_ERROR(sizes.Add(absl::MakeConstSpan(planned.tuples).subspan(number * l, l),
                                   pattern.repeats * copies));
    }
  }
  return AddToAll(sizes, making, counting);
}

absl::StatusOr<uint64_t> SegmentedPlan::BoundOf(const SizeHistogram& all,
                                                const Making& making) const {
  PlannerResult planned;
  const auto memory =
      PlanHistogram(all, shapes_.Packed(), {}, bounds_.planner_steps, making, planned);
  if (memory.ok()) return planned.lower_bound;
  // A weaker bound needs no room.
  if (!absl::IsResourceExhausted(memory.status())) return memory.status();
  return ComputeVolumeBound(all, shapes(0)[0].packed).packs;
}

uint64_t SegmentedPlan::VolumeOf(const SegmentCounts& counts) const {
  const Limits& limits = shapes(0)[0].packed;
  uint64_t packs = 0;
  for (size_t k = 0; k < counts.rows.size(); ++k) {
    if (!limits.has_limit(k) || counts.rows[k] == 0) continue;
    packs = std::max(packs, (counts.rows[k] - 1) / limits.capacity(k) + 1);
  }
  return packs;
}

absl::Status SegmentedPlan::Count(const Making& making) {
  const size_t l = schema().num_components();
  const size_t num_segments = layout_.num_segments();
  Counting counting;
  PlannerResult& found = counting.found;
  found.dataset_version = dataset().version;
  found.shapes = shapes_.Capacities();
  found.segments.num_batches.resize(num_rank_groups() * num_segments);
  found.segments.digests.reserve(num_segments);
  found.segments.of_shapes.resize(shapes_.num_shapes());
  found.segments.rows.resize(shapes_.num_shapes() * (l + 1));
  found.segments.fullest.resize(found.segments.rows.size());
  const bool has_bound = HasBound() && num_segments > 1;
  if (has_bound) {
    PH_ASSIGN_OR_RETURN(MemoryHold memory,
                        making.Hold("sizes of all segments", SizeHistogram::BytesFor(1, l)));
    counting.all = HeldSizes{std::move(memory), SizeHistogram(l)};
  }
  // Of one segment after the other.
  std::unique_ptr<ChunkSizes> sizes;
  MemoryHold of_reading;
  if (!NeedsGraphs()) {
    sizes = chunks_->ReadSizes(layout_.all_chunks());
    PH_ASSIGN_OR_RETURN(of_reading,
                        making.Hold("sizes that are read of the store", sizes->bytes()));
  }
  counting.is_found.resize(SubsetIds().size());
  for (uint32_t segment = 0; segment < num_segments; ++segment) {
    PH_RETURN_IF_ERROR(making.StillWanted());
    PH_RETURN_IF_ERROR(sizes != nullptr ? CountSegment(segment, *sizes, making, counting)
                                        : CountGraphs(segment, making, counting));
  }
  PH_RETURN_IF_ERROR(CheckFound(counting.is_found));
  if (counting.all) {
    PH_ASSIGN_OR_RETURN(found.lower_bound, BoundOf(counting.all->sizes, making));
  } else if (has_bound && request_.min_rows.empty()) {
    found.lower_bound = VolumeOf(found.segments);
  }
  Digest digest;
  for (const uint64_t of_segment : found.segments.digests) digest.Add(of_segment);
  found.receipt = absl::StrCat(PlannerWords(), digest.Hex(16));
  planned_ = std::make_shared<const PlannerResult>(std::move(found));
  return absl::OkStatus();
}

void SegmentedPlan::Summarize() {
  const SegmentCounts& counts = planned_->segments;
  auto of_shape = counts.of_shapes.begin();
  auto rows = counts.rows.begin();
  auto fullest = counts.fullest.begin();
  for (size_t i = 0; i < num_rank_groups(); ++i) {
    std::vector<ShapeSummary>& summaries = summaries_.emplace_back();
    for (const BatchShape& shape : shapes(i)) {
      ShapeSummary& summary = summaries.emplace_back();
      summary.num_batches = *of_shape++;
      for (const uint64_t capacity : shape.capacities) {
        summary.rows.push_back(*rows++);
        summary.components.push_back({capacity, 0, *fullest++, 0});
      }
      summary.SetEfficiencies();
    }
  }
}

uint64_t SegmentedPlan::num_batches(size_t rank_group) const {
  uint64_t sum = 0;
  for (const ShapeSummary& summary : summaries(rank_group)) sum += summary.num_batches;
  return sum;
}

uint64_t SegmentedPlan::num_batches() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < num_rank_groups(); ++i) sum += num_batches(i);
  return sum;
}

double SegmentedPlan::loss() const {
  if (lower_bound() == 0) return 0;
  return static_cast<double>(num_batches()) / static_cast<double>(lower_bound()) - 1;
}

uint64_t SegmentedPlan::bytes() const {
  return sizeof(SegmentedPlan) + chunks_->bytes() + layout_.bytes() + planned_->Bytes() +
         of_lists_.bytes() + of_draw_.bytes();
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

absl::StatusOr<std::shared_ptr<const DatasetReader>> SegmentedPlan::Open(
    uint32_t segment, const Making& making, const MakeRoom& make_room) const {
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
  return std::shared_ptr<const DatasetReader>(opened, opened->reader.get());
}

absl::Status SegmentedPlan::ForEachSelected(
    uint32_t segment, const Making& making,
    absl::FunctionRef<absl::Status(uint32_t chunk, absl::Span<const uint32_t> sizes)> take) const {
  PH_ASSIGN_OR_RETURN(const auto reader, Open(segment, making, nullptr));
  PH_ASSIGN_OR_RETURN(const GraphSelection selection,
                      GraphSelection::Create(*reader, request_.subset, making));
  const ItemSizes sizes = SizesOfGraphs(*reader);
  const absl::Span<const uint32_t> chunks = layout_.chunks(segment);
  size_t chunk = 0;
  uint64_t end = 0;
  for (size_t i = 0; i < selection.num_graphs(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const size_t graph = selection.positions() ? (*selection.positions())[i] : i;
    while (graph >= end) end += chunks_->num_graphs()[chunks[chunk++]];
    PH_RETURN_IF_ERROR(take(chunks[chunk - 1], sizes.tuple(graph)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const EpochPlan>> SegmentedPlan::PlanOf(
    uint32_t segment, const Making& making, const MakeRoom& make_room,
    absl::Span<const uint64_t> first_batches) const {
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const DatasetReader> reader,
                      Open(segment, making, make_room));
  EpochRequest request = RequestOf(segment, request_.key, first_batches);
  MemoryHold of_weights;
  if (!weights_.empty()) {
    PH_ASSIGN_OR_RETURN(of_weights, making.Hold(absl::StrCat("weights of segment ", segment),
                                                sizeof(double) * layout_.num_graphs(segment)));
    request.draw->weights.reserve(layout_.num_graphs(segment));
    for (const uint32_t chunk : layout_.chunks(segment)) {
      request.draw->weights.insert(
          request.draw->weights.end(),
          weights_.begin() + static_cast<ptrdiff_t>(first_weights_[chunk]),
          weights_.begin() + static_cast<ptrdiff_t>(first_weights_[chunk + 1]));
    }
  }
  PH_ASSIGN_OR_RETURN(std::shared_ptr<const EpochPlan> plan,
                      EpochPlan::Make(std::move(reader), request, bounds_, making));
  if (planned_ == nullptr) return plan;
  PH_ASSIGN_OR_RETURN(const uint64_t digest, DigestOf(*plan, making));
  uint64_t num_found = 0;
  uint64_t num_counted = 0;
  bool is_same = digest == counts().digests[segment];
  for (size_t i = 0; i < num_rank_groups(); ++i) {
    const uint32_t counted = counts().num_batches[i * layout_.num_segments() + segment];
    is_same = is_same && plan->num_batches(i) == counted;
    num_found += plan->num_batches(i);
    num_counted += counted;
  }
  if (!is_same) {
    return absl::FailedPreconditionError(absl::StrCat(
        "plan ", receipt(), ": segment ", segment, " had ", num_counted,
        " batches when it was planned first; this release plans it otherwise, with ", num_found));
  }
  return plan;
}

EpochRequest SegmentedPlan::RequestOf(uint32_t segment, const EpochKey& key,
                                      absl::Span<const uint64_t> first_batches) const {
  EpochRequest request = request_;
  request.segments = std::nullopt;
  request.key = key;
  BeginAt(first_batches, request);
  if (request.draw) request.draw->of_segment = shares_[segment];
  // The seed of a segment's epochs; another for each.
  if (layout_.num_segments() > 1) {
    request.seed = SeededRandom(request_.seed ^ SeededRandom(uint64_t{segment} + 1).Next()).Next();
  }
  return request;
}

}  // namespace packhouse
