#include "service/engine/streams/stream_packer.h"

#include <algorithm>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/planning/limits.h"
#include "service/algorithms/planning/size_groups.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Bytes that a graph adds to a batch that is ragged in some component.
uint64_t BytesOf(const BatchLayout& layout, const GraphChunk& chunk, size_t i) {
  const auto tuple = chunk.sizes().tuple(i);
  absl::InlinedVector<uint64_t, 8> rows(tuple.begin(), tuple.end());
  rows.push_back(1);
  return layout.RaggedBytes(rows).value_or(UINT64_MAX);
}

// The bytes that are kept for each pending graph: id, offsets, place in the packer.
uint64_t OverheadBytes(const SizeTable& sizes) {
  return sizes.num_graphs() * (64 + 12 * sizes.num_components());
}

// The options with their defaults; the limits do not matter.
absl::StatusOr<OnlinePackerOptions> Resolved(const OnlinePackerOptions& options) {
  PH_ASSIGN_OR_RETURN(const Limits limits, Limits::Create({1}));
  PH_ASSIGN_OR_RETURN(const OnlinePacker packer, OnlinePacker::Create(limits, options));
  return packer.options();
}

// Real rows of these graphs together, `graphs` last.
std::vector<uint64_t> RowsOf(const std::vector<GraphRef>& graphs, size_t num_components) {
  std::vector<uint64_t> rows(num_components + 1);
  for (const GraphRef& graph : graphs) {
    const auto tuple = graph.chunk->sizes().tuple(graph.index);
    for (size_t k = 0; k < tuple.size(); ++k) rows[k] += tuple[k];
  }
  rows.back() = graphs.size();
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamPacker>> StreamPacker::Create(
    std::shared_ptr<const GraphSchema> schema, const StreamPackerOptions& options,
    std::unique_ptr<PackObserver> observer) {
  const GraphSchema& resolved = *schema;
  PH_ASSIGN_OR_RETURN(OnlinePackerOptions packing, Resolved(options.packing));
  auto packer = std::unique_ptr<StreamPacker>(
      new StreamPacker(std::move(schema), options, packing, std::move(observer)));
  if (options.calibration) {
    packer->calibration_.emplace(*options.calibration, resolved.num_components());
    return packer;
  }
  PH_ASSIGN_OR_RETURN(
      BatchShape shape,
      BatchShape::Resolve(resolved, options.capacities,
                          {options.padding, options.derived, options.whole_graphs,
                           options.bounds.max_graphs_per_batch, options.bounds.max_batch_bytes,
                           options.min_rows, options.integer_width}));
  std::vector<StreamShape> shapes;
  shapes.push_back({std::move(shape), options.capacities});
  PH_RETURN_IF_ERROR(packer->Begin(std::move(shapes)));
  return packer;
}

StreamPacker::StreamPacker(std::shared_ptr<const GraphSchema> schema,
                           const StreamPackerOptions& options, OnlinePackerOptions packing,
                           std::unique_ptr<PackObserver> observer)
    : schema_(std::move(schema)),
      packing_(packing),
      whole_graphs_(options.whole_graphs),
      oversize_is_error_(options.oversize_is_error),
      bounds_(options.bounds),
      observer_(std::move(observer)) {}

absl::Status StreamPacker::Begin(std::vector<StreamShape> shapes) {
  std::vector<std::vector<uint64_t>> laid_out;
  for (const StreamShape& shape : shapes) laid_out.push_back(shape.shape.capacities);
  std::vector<Route> routes;
  std::vector<OnlinePacker> packers;
  for (const size_t leader : LeadingShapes(laid_out)) {
    const BatchShape& largest = shapes[leader].shape;
    std::vector<uint64_t> capacities(largest.packed.capacities().begin(),
                                     largest.packed.capacities().end());
    for (uint64_t& capacity : capacities) capacity = std::min(capacity, kMaxCapacity);
    // The bytes of a padded batch are known beforehand.
    if (whole_graphs_ && !largest.layout.is_fixed()) {
      // What is padded takes its bytes in every batch; Resolve() has checked that there is room.
      const uint64_t bytes = bounds_.max_batch_bytes - *largest.layout.PaddedBytes();
      capacities.insert(capacities.end() - 1, std::clamp<uint64_t>(bytes, 1, kMaxCapacity));
    }
    PH_ASSIGN_OR_RETURN(Limits limits, Limits::Create(std::move(capacities)));
    PH_ASSIGN_OR_RETURN(OnlinePacker packer, OnlinePacker::Create(limits, packing_));
    routes.push_back({std::move(limits), shapes[leader].cost});
    packers.push_back(std::move(packer));
  }
  shapes_ = std::move(shapes);
  routes_.emplace(std::move(routes));
  packers_ = std::move(packers);
  return absl::OkStatus();
}

absl::Time StreamPacker::NextDeadline() const {
  if (calibration_) return calibration_->Deadline(packing_.max_delay);
  absl::Time next = absl::InfiniteFuture();
  for (const OnlinePacker& packer : packers_) next = std::min(next, packer.NextDeadline());
  return next;
}

StreamPacker::~StreamPacker() {
  if (bounds_.quota != nullptr) bounds_.quota->Give(pending_bytes_);
  observer_->OnPending(0, 0);
}

absl::Span<const uint32_t> StreamPacker::PackedTuple(const GraphChunk& chunk, size_t i,
                                                     SizeTuple& made) const {
  const auto sizes = chunk.sizes().tuple(i);
  const MinRows& min_rows = layout().min_rows();
  const bool has_bytes = routes_->limits(0).num_components() > sizes.size();
  if (min_rows.empty() && !has_bytes) return sizes;
  made.assign(sizes.begin(), sizes.end());
  for (size_t k = 0; !min_rows.empty() && k < sizes.size(); ++k) {
    made[k] = min_rows.PackedSize(k, sizes[k]);
  }
  if (has_bytes) {
    made.push_back(static_cast<uint32_t>(
        std::min<uint64_t>(BytesOf(layout(), chunk, i), std::numeric_limits<uint32_t>::max())));
  }
  return made;
}

std::optional<Rejection> StreamPacker::ReasonToReject(const GraphChunk& chunk, size_t i) const {
  if (calibration_) {
    const auto excess = calibration_->ExcessOf(chunk.sizes().tuple(i));
    if (!excess) return std::nullopt;
    const bool is_memory = excess->component == ProfileExcess::kMemory;
    return Rejection{chunk.sizes().graph_id(i), is_memory ? Rejection::kMemory : excess->component,
                     excess->value, excess->bound};
  }
  return ExcessOverLimits(chunk, i);
}

std::optional<Rejection> StreamPacker::ExcessOverLimits(const GraphChunk& chunk, size_t i) const {
  SizeTuple made;
  const absl::Span<const uint32_t> tuple = PackedTuple(chunk, i, made);
  if (routes_->RouteOf(tuple)) return std::nullopt;
  // What keeps it out of the first shape.
  const Limits& limits = routes_->limits(0);
  const size_t component = *limits.FirstExceeded(tuple);
  const uint64_t id = chunk.sizes().graph_id(i);
  if (component == chunk.sizes().num_components()) {
    return Rejection{id, Rejection::kBytes, tuple[component], limits.capacity(component)};
  }
  const uint64_t rows = chunk.sizes().tuple(i)[component];
  const uint64_t least = layout().min_rows()[component];
  if (rows < least) return Rejection{id, component, rows, least, /*is_too_small=*/true};
  if (least == 0) return Rejection{id, component, rows, limits.capacity(component)};
  return Rejection{id, component, rows, shapes_[0].shape.LargestGraph(component)};
}

std::string StreamPacker::Describe(const Rejection& rejection) const {
  if (rejection.component == Rejection::kMemory) {
    return absl::StrCat("graph ", rejection.graph_id, " needs a batch of ", rejection.value,
                        " bytes, memory_bytes is ", rejection.bound);
  }
  return absl::StrCat(
      "graph ", rejection.graph_id, " has ", rejection.value, " ",
      rejection.component == Rejection::kBytes ? "bytes"
                                               : schema_->sizes().name(rejection.component),
      rejection.is_too_small ? ", a graph has at least " : ", a batch takes at most ",
      rejection.bound);
}

void StreamPacker::TellPending() { observer_->OnPending(num_pending(), pending_bytes_); }

absl::StatusOr<std::vector<Rejection>> StreamPacker::Offer(GraphChunk chunk, uint64_t owner_bytes) {
  const SizeTable& sizes = chunk.sizes();
  uint64_t bytes = std::max<uint64_t>(chunk.num_bytes(), owner_bytes) + OverheadBytes(sizes);
  if (calibration_) {
    bytes += sizes.num_graphs() * Calibration::BytesPerGraph(sizes.num_components());
  }
  if (bytes > bounds_.max_pending_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk: ", bytes, " bytes with what is kept beside its graphs, at most ",
        bounds_.max_pending_bytes, " may be pending in a stream; send smaller chunks"));
  }
  RememberIdsIfNeeded(sizes);
  std::vector<Rejection> rejections;
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    const uint64_t id = sizes.graph_id(i);
    if (remembers_ids_ && pending_ids_.contains(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: graph id ", id, " occurs twice: it is still pending"));
    }
    const std::optional<Rejection> rejection = ReasonToReject(chunk, i);
    if (!rejection) continue;
    if (oversize_is_error_) {
      return absl::OutOfRangeError(absl::StrCat("chunk: ", Describe(*rejection)));
    }
    rejections.push_back(*rejection);
  }

  const size_t accepted = sizes.num_graphs() - rejections.size();
  if (accepted != 0 && bounds_.quota != nullptr && !bounds_.quota->TryTake(bytes)) {
    const ByteQuota& full = bounds_.quota->FullFor(bytes);
    return absl::ResourceExhaustedError(absl::StrCat("chunk: ", bytes, " bytes beside the ",
                                                     full.held(), " that are ", full.what(),
                                                     ", at most ", full.bound()));
  }
  if (calibration_) {
    const absl::Status counted = calibration_->Count(chunk);
    if (!counted.ok()) {
      if (accepted != 0 && bounds_.quota != nullptr) bounds_.quota->Give(bytes);
      return counted;
    }
  }

  // From here on nothing fails: the chunk is accepted.
  num_offered_ += sizes.num_graphs();
  num_rejected_ += rejections.size();
  if (!rejections.empty()) observer_->OnRejectedTooLarge(rejections.size());
  if (accepted == 0) return rejections;
  if (remembers_ids_) {
    for (size_t i = 0; i < sizes.num_graphs(); ++i) HoldOnTo(sizes.graph_id(i));
    for (const Rejection& rejection : rejections) LetGoOf(rejection.graph_id);
  } else {
    for (size_t i = 0; i < sizes.num_graphs(); ++i) {
      largest_id_ = std::max(largest_id_.value_or(0), sizes.graph_id(i));
    }
  }
  held_.push_back({std::move(chunk), bytes, accepted, !rejections.empty()});
  if (!calibration_) {
    feeding_ = std::prev(held_.end());
    next_graph_ = 0;
  }
  pending_bytes_ += bytes;
  TellPending();
  return rejections;
}

void StreamPacker::RejectHeld(HeldChunk& held, std::vector<Rejection>& rejections) {
  for (size_t i = 0; i < held.chunk.num_graphs(); ++i) {
    // Those that the profile does not allow were rejected when they came.
    if (calibration_->ExcessOf(held.chunk.sizes().tuple(i))) continue;
    const std::optional<Rejection> excess = ExcessOverLimits(held.chunk, i);
    if (!excess) continue;
    rejections.push_back(*excess);
    LetGoOf(excess->graph_id);
    --held.pending;
    held.has_rejected = true;
  }
}

absl::StatusOr<std::vector<Rejection>> StreamPacker::SetShapes(std::vector<StreamShape> shapes) {
  PH_RETURN_IF_ERROR(Begin(std::move(shapes)));
  std::vector<Rejection> rejections;
  for (auto held = held_.begin(); held != held_.end();) {
    const auto next = std::next(held);
    RejectHeld(*held, rejections);
    if (held->pending == 0) Drop(held);
    held = next;
  }
  calibration_.reset();
  feeding_ = held_.begin();
  next_graph_ = 0;
  num_rejected_ += rejections.size();
  if (!rejections.empty()) observer_->OnRejectedTooLarge(rejections.size());
  TellPending();
  if (rejections.empty() || !oversize_is_error_) return rejections;
  return absl::OutOfRangeError(
      absl::StrCat("the limits chosen from the first graphs: ", Describe(rejections[0]),
                   "; a larger min_rows of the profile would take it"));
}

void StreamPacker::RememberIdsIfNeeded(const SizeTable& sizes) {
  if (remembers_ids_ || !largest_id_) return;
  bool may_be_pending = false;
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    may_be_pending |= sizes.graph_id(i) <= *largest_id_;
  }
  if (!may_be_pending) return;
  remembers_ids_ = true;
  if (calibration_) {
    // Nothing was packed.
    for (const HeldChunk& held : held_) {
      for (size_t i = 0; i < held.chunk.num_graphs(); ++i) {
        if (!ReasonToReject(held.chunk, i)) HoldOnTo(held.chunk.sizes().graph_id(i));
      }
    }
    return;
  }
  // All that was held is in the packer.
  std::vector<bool> is_free(pending_.size());
  for (const uint64_t handle : free_handles_) is_free[handle] = true;
  for (size_t handle = 0; handle < pending_.size(); ++handle) {
    if (is_free[handle]) continue;
    const PendingGraph& graph = pending_[handle];
    HoldOnTo(graph.held->chunk.sizes().graph_id(graph.index));
  }
}

void StreamPacker::HoldOnTo(uint64_t id) {
  if (!pending_ids_.insert(id).second) ++pending_again_[id];
}

void StreamPacker::LetGoOf(uint64_t id) {
  if (!remembers_ids_) return;
  // Few streams cut graphs.
  if (pending_again_.empty()) {
    pending_ids_.erase(id);
    return;
  }
  const auto again = pending_again_.find(id);
  if (again == pending_again_.end()) {
    pending_ids_.erase(id);
  } else if (--again->second == 0) {
    pending_again_.erase(again);
  }
}

void StreamPacker::Drop(HeldChunks::iterator held) {
  pending_bytes_ -= held->bytes;
  if (bounds_.quota != nullptr) bounds_.quota->Give(held->bytes);
  // Graphs of it that are left to feed were rejected.
  if (feeding_ == held) {
    feeding_ = std::next(held);
    next_graph_ = 0;
  }
  held_.erase(held);
}

absl::StatusOr<OnlinePacker*> StreamPacker::Feed(absl::Time now, size_t max_graphs) {
  SizeTuple made;
  for (size_t fed = 0; is_feeding() && fed < max_graphs; ++fed) {
    const HeldChunks::iterator held = feeding_;
    const size_t index = next_graph_++;
    if (next_graph_ == held->chunk.num_graphs()) {
      feeding_ = std::next(held);
      next_graph_ = 0;
    }
    const absl::Span<const uint32_t> tuple = PackedTuple(held->chunk, index, made);
    size_t route = 0;
    if (held->has_rejected || packers_.size() > 1) {
      const std::optional<size_t> taken = routes_->RouteOf(tuple);
      if (!taken) continue;  // Was rejected.
      route = *taken;
    }
    if (packers_.size() > 1) {
      held->in_packers.resize(packers_.size());
      ++held->in_packers[route];
    }
    uint64_t handle = pending_.size();
    if (free_handles_.empty()) {
      pending_.push_back({held, index, route});
    } else {
      handle = free_handles_.back();
      free_handles_.pop_back();
      pending_[handle] = {held, index, route};
    }
    OnlinePacker& packer = packers_[route];
    PH_ASSIGN_OR_RETURN(const bool complete, packer.Push(tuple, handle, held->came.value_or(now)));
    if (complete) return &packer;
  }
  return nullptr;
}

OnlinePacker* StreamPacker::PackOverdue(absl::Time now) {
  for (OnlinePacker& packer : packers_) {
    if (packer.PackOverdue(now)) return &packer;
  }
  return nullptr;
}

OnlinePacker* StreamPacker::PackPending() {
  size_t first = 0;
  // At the end all is packed, in an order that does not depend on how graphs were cut into chunks.
  if (packers_.size() > 1 && !flushing_ && !held_.empty()) {
    const std::vector<uint32_t>& in_packers = held_.front().in_packers;
    while (first < in_packers.size() && in_packers[first] == 0) ++first;
  }
  for (size_t i = 0; i < packers_.size(); ++i) {
    OnlinePacker& packer = packers_[(first + i) % packers_.size()];
    if (packer.PackPending(/*is_end=*/flushing_)) return &packer;
  }
  return nullptr;
}

const StreamShape& StreamPacker::ShapeFor(const std::vector<GraphRef>& graphs) const {
  if (shapes_.size() == 1) return shapes_[0];
  const std::vector<uint64_t> rows = RowsOf(graphs, schema_->num_components());
  size_t i = shapes_.size() - 1;
  while (i > 0 && !shapes_[i].shape.Takes(rows)) --i;
  return shapes_[i];
}

absl::StatusOr<Batch> StreamPacker::BuildBatch(const Pack& pack) {
  std::vector<GraphRef> graphs;
  graphs.reserve(pack.size());
  for (const uint64_t handle : pack) {
    graphs.push_back({&pending_[handle].held->chunk, pending_[handle].index});
  }
  const StreamShape& shape = ShapeFor(graphs);
  absl::StatusOr<Batch> batch =
      whole_graphs_ ? Collate(shape.shape.layout, graphs, bounds_.max_batch_bytes, bounds_.framing)
                    : CollateSizes(shape.shape.layout, graphs);
  if (!batch.ok()) return batch;
  for (const uint64_t handle : pack) {
    const PendingGraph graph = pending_[handle];
    LetGoOf(graph.held->chunk.sizes().graph_id(graph.index));
    free_handles_.push_back(handle);
    if (packers_.size() > 1) --graph.held->in_packers[graph.packer];
    if (--graph.held->pending == 0) Drop(graph.held);
  }
  num_packed_ += pack.size();
  ++num_batches_;
  observer_->OnBatch(*batch, shape.requested);
  TellPending();
  return batch;
}

void StreamPacker::PassCalibration(absl::Time now) {
  for (auto held = held_.rbegin(); held != held_.rend() && !held->came; ++held) held->came = now;
  calibration_->Pass(now, packing_.max_delay);
  if (held_.empty()) {
    flushing_ = false;
  } else if (flushing_ || pending_bytes_ > bounds_.max_pending_bytes) {
    calibration_->End();
  }
}

absl::StatusOr<std::optional<Batch>> StreamPacker::Next(absl::Time now, size_t max_graphs) {
  if (calibration_) {
    PassCalibration(now);
    return std::nullopt;
  }
  // Graphs that were held while there were no shapes may all be overdue. They make full batches
  // first.
  const bool catches_up = is_feeding() && feeding_->came.has_value();
  OnlinePacker* complete = catches_up ? nullptr : PackOverdue(now);
  if (complete == nullptr) {
    PH_ASSIGN_OR_RETURN(complete, Feed(now, max_graphs));
    if (complete == nullptr && is_feeding()) return std::nullopt;
  }
  if (complete == nullptr && catches_up) complete = PackOverdue(now);
  if (complete == nullptr && (flushing_ || pending_bytes_ > bounds_.max_pending_bytes)) {
    complete = PackPending();
  }
  if (complete == nullptr) {
    flushing_ = false;
    return std::nullopt;
  }
  PH_ASSIGN_OR_RETURN(Batch batch, BuildBatch(complete->TakePack()));
  return batch;
}

}  // namespace packhouse
