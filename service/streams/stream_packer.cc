#include "service/streams/stream_packer.h"

#include <algorithm>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/planning/limits.h"

namespace packhouse {
namespace {

// Whether a batch's bytes need a limit of their own. Those of a padded batch are known beforehand.
bool LimitsBytes(const StreamPackerOptions& options, const BatchLayout& layout) {
  return options.whole_graphs && !layout.is_fixed();
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<StreamPacker>> StreamPacker::Create(
    std::shared_ptr<const GraphSchema> schema, const StreamPackerOptions& options,
    std::unique_ptr<PackObserver> observer) {
  PH_ASSIGN_OR_RETURN(BatchShape shape,
                      BatchShape::Resolve(*schema, options.capacities,
                                          {options.padding, options.derived, options.whole_graphs,
                                           options.bounds.max_graphs_per_batch,
                                           options.bounds.max_batch_bytes, options.min_rows}));
  std::vector<uint64_t> packing_capacities(shape.packed.capacities().begin(),
                                           shape.packed.capacities().end());
  for (uint64_t& capacity : packing_capacities) {
    capacity = std::min(capacity, kMaxCapacity);
  }
  if (LimitsBytes(options, shape.layout)) {
    // What is padded takes its bytes in every batch; Resolve() has checked that there is room.
    const uint64_t bytes = options.bounds.max_batch_bytes - *shape.layout.PaddedBytes();
    packing_capacities.insert(packing_capacities.end() - 1,
                              std::clamp<uint64_t>(bytes, 1, kMaxCapacity));
  }
  PH_ASSIGN_OR_RETURN(Limits packing_limits, Limits::Create(std::move(packing_capacities)));
  PH_ASSIGN_OR_RETURN(OnlinePacker packer, OnlinePacker::Create(packing_limits, options.packing));
  return std::unique_ptr<StreamPacker>(new StreamPacker(std::move(schema), options,
                                                        std::move(shape), std::move(packing_limits),
                                                        std::move(packer), std::move(observer)));
}

StreamPacker::StreamPacker(std::shared_ptr<const GraphSchema> schema,
                           const StreamPackerOptions& options, BatchShape shape,
                           Limits packing_limits, OnlinePacker packer,
                           std::unique_ptr<PackObserver> observer)
    : schema_(std::move(schema)),
      requested_(options.capacities),
      shape_(std::move(shape)),
      packing_limits_(std::move(packing_limits)),
      packing_(packer.options()),
      whole_graphs_(options.whole_graphs),
      oversize_is_error_(options.oversize_is_error),
      bounds_(options.bounds),
      observer_(std::move(observer)),
      packer_(std::move(packer)) {}

StreamPacker::~StreamPacker() {
  if (bounds_.quota != nullptr) bounds_.quota->Give(pending_bytes_);
  observer_->OnPending(0, 0);
}

SizeTuple StreamPacker::PackedTuple(const GraphChunk& chunk, size_t i) const {
  const auto sizes = chunk.sizes().tuple(i);
  SizeTuple tuple(sizes.begin(), sizes.end());
  const MinRows& min_rows = shape_.layout.min_rows();
  for (size_t k = 0; !min_rows.empty() && k < sizes.size(); ++k) {
    tuple[k] = min_rows.PackedSize(k, sizes[k]);
  }
  if (packing_limits_.num_components() > tuple.size()) {
    tuple.push_back(static_cast<uint32_t>(std::min<uint64_t>(
        BytesOf(shape_.layout, chunk, i), std::numeric_limits<uint32_t>::max())));
  }
  return tuple;
}

Rejection StreamPacker::RejectionOf(const GraphChunk& chunk, size_t i, size_t component,
                                    const SizeTuple& packed) const {
  const SizeTable& sizes = chunk.sizes();
  const uint64_t id = sizes.graph_id(i);
  if (component == sizes.num_components()) {
    return {id, Rejection::kBytes, packed[component], packing_limits_.capacity(component)};
  }
  const uint64_t rows = sizes.tuple(i)[component];
  const uint64_t least = shape_.layout.min_rows()[component];
  if (rows < least) return {id, component, rows, least, /*is_too_small=*/true};
  if (least == 0) return {id, component, rows, packing_limits_.capacity(component)};
  return {id, component, rows, shape_.LargestGraph(component)};
}

void StreamPacker::TellPending() { observer_->OnPending(num_pending(), pending_bytes_); }

absl::StatusOr<std::vector<Rejection>> StreamPacker::Offer(GraphChunk chunk, uint64_t owner_bytes) {
  const SizeTable& sizes = chunk.sizes();
  const uint64_t bytes = std::max<uint64_t>(chunk.num_bytes(), owner_bytes) + OverheadBytes(sizes);
  if (bytes > bounds_.max_pending_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk: ", bytes, " bytes with what is kept beside its graphs, at most ",
        bounds_.max_pending_bytes, " may be pending in a stream; send smaller chunks"));
  }
  std::vector<Rejection> rejections;
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    const uint64_t id = sizes.graph_id(i);
    if (pending_ids_.contains(id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("chunk: graph id ", id, " occurs twice: it is still pending"));
    }
    const SizeTuple tuple = PackedTuple(chunk, i);
    const auto exceeded = packing_limits_.FirstExceeded(tuple);
    if (!exceeded) continue;
    const Rejection rejection = RejectionOf(chunk, i, *exceeded, tuple);
    if (oversize_is_error_) {
      const bool is_bytes = rejection.component == Rejection::kBytes;
      return absl::OutOfRangeError(absl::StrCat(
          "chunk: graph ", id, " has ", rejection.value, " ",
          is_bytes ? "bytes" : schema_->sizes().name(*exceeded),
          rejection.is_too_small ? ", a graph has at least " : ", a batch takes at most ",
          rejection.bound));
    }
    rejections.push_back(rejection);
  }

  const size_t accepted = sizes.num_graphs() - rejections.size();
  if (accepted != 0 && bounds_.quota != nullptr && !bounds_.quota->TryTake(bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("chunk: ", bytes, " bytes beside the ", bounds_.quota->held(),
                     " that are pending in all streams, at most ", bounds_.quota->bound()));
  }

  // From here on nothing fails: the chunk is accepted.
  num_offered_ += sizes.num_graphs();
  num_rejected_ += rejections.size();
  if (!rejections.empty()) observer_->OnRejectedTooLarge(rejections.size());
  if (accepted == 0) return rejections;
  for (size_t i = 0; i < sizes.num_graphs(); ++i) pending_ids_.insert(sizes.graph_id(i));
  for (const Rejection& rejection : rejections) pending_ids_.erase(rejection.graph_id);
  held_.push_back({std::move(chunk), bytes, accepted});
  feeding_ = std::prev(held_.end());
  next_graph_ = 0;
  pending_bytes_ += bytes;
  TellPending();
  return rejections;
}

absl::StatusOr<bool> StreamPacker::Feed(absl::Time now, size_t max_graphs) {
  for (size_t fed = 0; is_feeding() && fed < max_graphs; ++fed) {
    const HeldChunks::iterator held = feeding_;
    const size_t index = next_graph_++;
    if (next_graph_ == held->chunk.num_graphs()) feeding_ = held_.end();
    const SizeTuple tuple = PackedTuple(held->chunk, index);
    if (packing_limits_.FirstExceeded(tuple)) continue;  // Was rejected.
    uint64_t handle = pending_.size();
    if (free_handles_.empty()) {
      pending_.push_back({held, index});
    } else {
      handle = free_handles_.back();
      free_handles_.pop_back();
      pending_[handle] = {held, index};
    }
    PH_ASSIGN_OR_RETURN(const bool complete, packer_.Push(tuple, handle, now));
    if (complete) return true;
  }
  return false;
}

absl::StatusOr<Batch> StreamPacker::BuildBatch(const Pack& pack) {
  std::vector<GraphRef> graphs;
  graphs.reserve(pack.size());
  for (const uint64_t handle : pack) {
    graphs.push_back({&pending_[handle].held->chunk, pending_[handle].index});
  }
  absl::StatusOr<Batch> batch =
      whole_graphs_ ? Collate(shape_.layout, graphs, bounds_.max_batch_bytes, bounds_.framing)
                    : CollateSizes(shape_.layout, graphs);
  if (!batch.ok()) return batch;
  for (const uint64_t handle : pack) {
    const PendingGraph graph = pending_[handle];
    pending_ids_.erase(graph.held->chunk.sizes().graph_id(graph.index));
    free_handles_.push_back(handle);
    if (--graph.held->pending == 0) {
      pending_bytes_ -= graph.held->bytes;
      if (bounds_.quota != nullptr) bounds_.quota->Give(graph.held->bytes);
      // All its graphs are packed; graphs that are left to feed were rejected.
      if (feeding_ == graph.held) feeding_ = held_.end();
      held_.erase(graph.held);
    }
  }
  num_packed_ += pack.size();
  ++num_batches_;
  observer_->OnBatch(*batch, requested_);
  TellPending();
  return batch;
}

absl::StatusOr<std::optional<Batch>> StreamPacker::Next(absl::Time now, size_t max_graphs) {
  bool complete = packer_.PackOverdue(now);
  if (!complete) {
    PH_ASSIGN_OR_RETURN(complete, Feed(now, max_graphs));
    if (!complete && is_feeding()) return std::nullopt;
  }
  if (!complete && (flushing_ || pending_bytes_ > bounds_.max_pending_bytes)) {
    complete = packer_.PackPending();
  }
  if (!complete) {
    flushing_ = false;
    return std::nullopt;
  }
  PH_ASSIGN_OR_RETURN(Batch batch, BuildBatch(packer_.TakePack()));
  return batch;
}

}  // namespace packhouse
