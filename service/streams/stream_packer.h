// One stream of graphs: chunks in, padded batches out, nothing stored.
//
// Flow: Create() resolves limits and layout. Offer() a chunk; call Next() until it gives nothing
// and is_feeding() is false; then offer the next chunk, and so on. After Flush(), Next() packs
// everything that is pending. Batches are built only when Next() asks for them. A caller that does
// not take batches therefore holds up the chunks: that is the back-pressure.
#ifndef PACKHOUSE_SERVICE_STREAMS_STREAM_PACKER_H_
#define PACKHOUSE_SERVICE_STREAMS_STREAM_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/collation/batch.h"
#include "service/collation/batch_layout.h"
#include "service/collation/batch_shape.h"
#include "service/collation/collate.h"
#include "service/collation/tensor_framing.h"
#include "service/graphs/graph_chunk.h"
#include "service/graphs/graph_schema.h"
#include "service/histograms/size_histogram.h"
#include "service/packing/online_packer.h"
#include "service/planning/limits.h"
#include "service/streams/byte_quota.h"
#include "service/streams/pack_observer.h"

namespace packhouse {

// What a server allows a stream.
struct StreamBounds {
  // Most graphs in a batch; a larger limit is lowered to this. Keeps the open pack small if graphs
  // can be empty.
  uint64_t max_graphs_per_batch = 65536;
  // Most bytes of a batch's tensors.
  uint64_t max_batch_bytes = uint64_t{48} << 20;
  // Most bytes of chunks with pending graphs, with what is kept for each graph. Above this, pending
  // graphs are packed early, if necessary in part-filled batches. A single chunk above this is
  // refused.
  uint64_t max_pending_bytes = uint64_t{256} << 20;
  // Shared by all streams of a server, if set; must outlive them.
  ByteQuota* quota = nullptr;
  // The framing of batches; none if null. Must outlive all streams.
  const TensorFraming* framing = nullptr;
};

struct StreamPackerOptions {
  // The requested capacity of each component, `graphs` last; kUnlimited where there is none.
  std::vector<uint64_t> capacities;
  Padding padding = Padding::kNone;
  DerivedTensors derived;
  OnlinePackerOptions packing;
  // False: chunks have no tensors, batches carry ids and sizes only.
  bool whole_graphs = true;
  // A graph that exceeds the limits is an error rather than a rejection.
  bool oversize_is_error = false;
  StreamBounds bounds;
  // Only with kTfgnn.
  MinRows min_rows;
};

// A graph that is in no batch. It alone exceeds the usable capacity of a component or, if
// capacities do not bound a batch's bytes, the bytes that a batch may have; or it is too small.
struct Rejection {
  // Stands for a component if the graph's tensors have too many bytes.
  static constexpr size_t kBytes = SIZE_MAX;

  uint64_t graph_id;
  size_t component;
  uint64_t value;
  uint64_t bound;
  // It has fewer rows than `bound`, a minimum.
  bool is_too_small = false;

  friend bool operator==(const Rejection&, const Rejection&) = default;
};

// Thread-compatible; no clock of its own.
class StreamPacker {
 public:
  // INVALID_ARGUMENT as Limits, BatchLayout and OnlinePacker, and if a padded batch would exceed
  // bounds.max_batch_bytes.
  static absl::StatusOr<std::unique_ptr<StreamPacker>> Create(
      std::shared_ptr<const GraphSchema> schema, const StreamPackerOptions& options,
      std::unique_ptr<PackObserver> observer);

  ~StreamPacker();
  StreamPacker(const StreamPacker&) = delete;
  StreamPacker& operator=(const StreamPacker&) = delete;

  // Accepts a chunk of the stream's schema, or refuses it whole. Returns the graphs that will be in
  // no batch. May be called only when Next() has given nothing and is_feeding() is false.
  //
  // INVALID_ARGUMENT naming an id that is still pending (an id may be used again once its batch is
  // out), or for a chunk above bounds.max_pending_bytes; OUT_OF_RANGE, naming the graph, for a
  // graph beyond the limits if that is an error; RESOURCE_EXHAUSTED if the quota of all streams is
  // used up.
  //
  // `owner_bytes`: the bytes of the object that keeps the chunk's columns alive, if it is larger
  // than the columns. All of it is pending until the chunk's last graph is in a batch.
  absl::StatusOr<std::vector<Rejection>> Offer(GraphChunk chunk, uint64_t owner_bytes = 0);

  // The next batch, or nullopt until there is another chunk, a Flush(), or NextDeadline(). The only
  // error is INTERNAL: a bug. Feeds at most `max_graphs` graphs to the packer; if they do not
  // complete a batch, gives nullopt, and is_feeding() is true. `max_graphs` does not change the
  // batches.
  absl::StatusOr<std::optional<Batch>> Next(absl::Time now, size_t max_graphs = SIZE_MAX);

  // Whether Next() has more to do without another chunk.
  bool is_feeding() const { return feeding_ != held_.end(); }

  // Lets Next() pack everything that is pending, then go on as before.
  void Flush() { flushing_ = true; }

  // The time at which Next() has to be called even without input.
  absl::Time NextDeadline() const { return packer_.NextDeadline(); }

  const GraphSchema& schema() const { return *schema_; }
  // The shape of a batch, and the most real rows in it; per component, `graphs` last. A component
  // without a limit still takes at most 2^31 - 1 rows.
  absl::Span<const uint64_t> capacities() const { return shape_.capacities; }
  const Limits& usable() const { return shape_.usable; }
  const BatchLayout& layout() const { return shape_.layout; }
  const OnlinePackerOptions& packing() const { return packing_; }

  // Totals since Create().
  uint64_t num_offered() const { return num_offered_; }
  uint64_t num_packed() const { return num_packed_; }
  uint64_t num_batches() const { return num_batches_; }
  uint64_t num_rejected() const { return num_rejected_; }
  uint64_t num_pending() const { return num_offered_ - num_rejected_ - num_packed_; }
  uint64_t pending_bytes() const { return pending_bytes_; }

 private:
  // A chunk with graphs that are in no batch yet.
  struct HeldChunk {
    GraphChunk chunk;
    uint64_t bytes;
    size_t pending;  // Its graphs that are in no batch yet and not rejected.
  };
  using HeldChunks = std::list<HeldChunk>;
  struct PendingGraph {
    HeldChunks::iterator held;
    size_t index;
  };

  StreamPacker(std::shared_ptr<const GraphSchema> schema, const StreamPackerOptions& options,
               BatchShape shape, Limits packing_limits, OnlinePacker packer,
               std::unique_ptr<PackObserver> observer);

  // The tuple that is packed: the packed sizes (min_rows.h), and the graph's bytes if these have a
  // limit.
  SizeTuple PackedTuple(const GraphChunk& chunk, size_t i) const;
  // Why a graph of this packed tuple, which exceeds the limits in `component`, is in no batch.
  Rejection RejectionOf(const GraphChunk& chunk, size_t i, size_t component,
                        const SizeTuple& packed) const;

  // Pushes graphs of the current chunk until a pack is complete, `max_graphs` at most.
  absl::StatusOr<bool> Feed(absl::Time now, size_t max_graphs);
  absl::StatusOr<Batch> BuildBatch(const Pack& pack);
  void TellPending();

  const std::shared_ptr<const GraphSchema> schema_;
  const std::vector<uint64_t> requested_;
  const BatchShape shape_;
  // Capacities of packed tuples, all limited; a batch that is ragged in some component has the
  // bytes there as one more component.
  const Limits packing_limits_;
  const OnlinePackerOptions packing_;
  const bool whole_graphs_;
  const bool oversize_is_error_;
  const StreamBounds bounds_;
  const std::unique_ptr<PackObserver> observer_;

  OnlinePacker packer_;
  HeldChunks held_;
  // The chunk being fed and its next graph; held_.end() if none.
  HeldChunks::iterator feeding_ = held_.end();
  size_t next_graph_ = 0;
  // The packer's handles are indexes into this.
  std::vector<PendingGraph> pending_;
  std::vector<uint64_t> free_handles_;
  absl::flat_hash_set<uint64_t> pending_ids_;
  uint64_t pending_bytes_ = 0;
  bool flushing_ = false;

  uint64_t num_offered_ = 0;
  uint64_t num_packed_ = 0;
  uint64_t num_batches_ = 0;
  uint64_t num_rejected_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STREAMS_STREAM_PACKER_H_
