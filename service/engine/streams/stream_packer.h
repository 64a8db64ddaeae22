// One stream of graphs: chunks in, padded batches out, nothing stored.
//
// Flow: Create() resolves limits and layout. Offer() a chunk; call Next() until it gives nothing
// and is_feeding() is false; then offer the next chunk, and so on. After Flush(), Next() packs
// everything that is pending. Batches are built only when Next() asks for them. A caller that does
// not take batches therefore holds up the chunks: that is the back-pressure.
//
// A stream may begin without limits, and calibrate them (StreamPackerOptions::calibration). Then it
// holds its chunks, and Next() gives nothing. When needs_shapes() says so, the caller chooses
// shapes, for example by stream_shapes.h from calibration().sizes(), and calls SetShapes(). From
// then on all is as if the stream had begun with them.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_PACKER_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_PACKER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/collation/batch_layout.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/collation/collate.h"
#include "service/algorithms/collation/tensor_framing.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/algorithms/planning/limits.h"
#include "service/engine/streams/byte_quota.h"
#include "service/engine/streams/calibration.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/shape_routes.h"
#include "service/engine/streams/stream_shapes.h"

namespace packhouse {

// What a server allows a stream.
class MeasuredModels;

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
  // Work of a search for shapes (ShapeSearch::steps).
  uint64_t shape_search_steps = 200'000'000;
  // Shared by all streams of a server, if set; must outlive them.
  ByteQuota* quota = nullptr;
  // What the streams of a namespace share instead, as a part of `quota`; it gives null if the
  // namespace has no bound of its own. May be null.
  std::function<std::shared_ptr<ByteQuota>(absl::string_view where)> quota_of = nullptr;
  // The framing of batches; none if null. Must outlive all streams.
  const TensorFraming* framing = nullptr;
  // What was measured of devices; null: nothing. Must outlive all streams.
  const MeasuredModels* measured = nullptr;
};

struct StreamPackerOptions {
  // The requested capacity of each component, `graphs` last; kUnlimited where there is none.
  std::vector<uint64_t> capacities;
  // Set: shapes are chosen later, and `capacities` are not used.
  std::optional<CalibrationOptions> calibration;
  Padding padding = Padding::kNone;
  DerivedTensors derived;
  IntegerWidth integer_width = IntegerWidth::kDeclared;
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
// While shapes are not chosen: it alone exceeds what the profile allows.
struct Rejection {
  // Stands for a component if the graph's tensors have too many bytes.
  static constexpr size_t kBytes = SIZE_MAX;
  // The same if its smallest batch exceeds the profile's memory_bytes.
  static constexpr size_t kMemory = SIZE_MAX - 1;

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
  // no batch. May be called only when Next() has given nothing, is_feeding() is false and
  // needs_shapes() is false.
  //
  // INVALID_ARGUMENT naming an id that is still pending from an earlier chunk (an id may be used
  // again once its batch is out; pieces of a graph share one), or for a chunk above
  // bounds.max_pending_bytes; OUT_OF_RANGE, naming the graph, for a graph beyond the limits if that
  // is an error; RESOURCE_EXHAUSTED if the quota of all streams is used up.
  //
  // `owner_bytes`: the bytes of the object that keeps the chunk's columns alive, if it is larger
  // than the columns. All of it is pending until the chunk's last graph is in a batch.
  absl::StatusOr<std::vector<Rejection>> Offer(GraphChunk chunk, uint64_t owner_bytes = 0);

  // The next batch, or nullopt until there is another chunk, a Flush(), or NextDeadline(). The only
  // error is INTERNAL: a bug. Feeds at most `max_graphs` graphs to the packer; if they do not
  // complete a batch, gives nullopt, and is_feeding() is true. `max_graphs` does not change the
  // batches.
  absl::StatusOr<std::optional<Batch>> Next(absl::Time now, size_t max_graphs = SIZE_MAX);

  // Whether SetShapes() has to be called before anything else: there are enough graphs, a Flush()
  // was called, graphs have waited for max_delay, or the bound of pending bytes is reached. Known
  // after Next() has given nothing.
  bool needs_shapes() const { return calibration_ && calibration_->has_ended(); }
  // The first graphs. Requires that shapes are not set.
  const Calibration& calibration() const { return *calibration_; }
  SizeHistogram TakeCalibration() { return calibration_->TakeSizes(); }

  // Ends the calibration. No shape may take all that an earlier one takes; a batch gets the last
  // one that takes it. If no shape takes what all others take, graphs are packed apart for each
  // shape that no other takes (shape_routes.h). Returns the held graphs that will be in no batch.
  // If these are to be an error: OUT_OF_RANGE naming the first; then the other graphs can still be
  // packed. INVALID_ARGUMENT as OnlinePacker. O(held graphs).
  absl::StatusOr<std::vector<Rejection>> SetShapes(std::vector<StreamShape> shapes);

  // Whether Next() has more to do without another chunk.
  bool is_feeding() const { return feeding_ != held_.end(); }

  // Lets Next() pack everything that is pending, then go on as before.
  void Flush() { flushing_ = true; }

  // The time at which Next() has to be called even without input.
  absl::Time NextDeadline() const;

  const GraphSchema& schema() const { return *schema_; }
  // None takes all that an earlier one takes. Empty while shapes are not set.
  absl::Span<const StreamShape> shapes() const { return shapes_; }
  // The first shape of a batch, and the most real rows in it; per component, `graphs` last. A
  // component without a limit still takes at most 2^31 - 1 rows. Requires shapes.
  absl::Span<const uint64_t> capacities() const { return shapes_[0].shape.capacities; }
  const Limits& usable() const { return shapes_[0].shape.usable; }
  const BatchLayout& layout() const { return shapes_[0].shape.layout; }
  const OnlinePackerOptions& packing() const { return packing_; }
  // Lives as long as this.
  PackObserver* observer() const { return observer_.get(); }

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
    bool has_rejected;
    // With several packers: its graphs that are in each.
    std::vector<uint32_t> in_packers = {};
    // Set if it came while there were no shapes, by the next Next().
    std::optional<absl::Time> came = std::nullopt;
  };
  using HeldChunks = std::list<HeldChunk>;
  struct PendingGraph {
    HeldChunks::iterator held;
    size_t index;
    size_t packer;
  };

  StreamPacker(std::shared_ptr<const GraphSchema> schema, const StreamPackerOptions& options,
               OnlinePackerOptions packing, std::unique_ptr<PackObserver> observer);

  // Makes a packer for these shapes. With an error nothing has changed.
  absl::Status Begin(std::vector<StreamShape> shapes);

  // The tuple that is packed: the packed sizes (min_rows.h), and the graph's bytes if these have a
  // limit. A view of the chunk's own if that is all, otherwise of `made`.
  absl::Span<const uint32_t> PackedTuple(const GraphChunk& chunk, size_t i, SizeTuple& made) const;
  // Why a graph will be in no batch; nullopt if it can be in one.
  std::optional<Rejection> ReasonToReject(const GraphChunk& chunk, size_t i) const;
  std::optional<Rejection> ExcessOverLimits(const GraphChunk& chunk, size_t i) const;
  std::string Describe(const Rejection& rejection) const;
  // The graphs of a held chunk that the profile allows and the chosen shapes do not take.
  void RejectHeld(HeldChunk& held, std::vector<Rejection>& rejections);
  // Begins to remember which ids are pending, if one of these may be.
  void RememberIdsIfNeeded(const SizeTable& sizes);
  // Counts a graph with this id as pending, and as pending no more.
  void HoldOnTo(uint64_t id);
  void LetGoOf(uint64_t id);
  // Forgets a chunk of which no graph is pending.
  void Drop(HeldChunks::iterator held);
  // The last shape that takes these graphs.
  const StreamShape& ShapeFor(const std::vector<GraphRef>& graphs) const;

  // Next() without shapes.
  void PassCalibration(absl::Time now);
  // Each makes one pack complete, and returns the packer that has it; null if there is none. Pushes
  // graphs of the held chunks until a pack is complete, `max_graphs` at most.
  absl::StatusOr<OnlinePacker*> Feed(absl::Time now, size_t max_graphs);
  OnlinePacker* PackOverdue(absl::Time now);
  // If there is no room for more, what holds the oldest chunk comes first, since that frees the
  // most.
  OnlinePacker* PackPending();
  absl::StatusOr<Batch> BuildBatch(const Pack& pack);
  void TellPending();

  const std::shared_ptr<const GraphSchema> schema_;
  const OnlinePackerOptions packing_;
  const bool whole_graphs_;
  const bool oversize_is_error_;
  const StreamBounds bounds_;
  const std::unique_ptr<PackObserver> observer_;

  // Until shapes are set.
  std::optional<Calibration> calibration_;
  // From then on. A route and a packer for each shape that no earlier one takes. Their limits are
  // capacities of packed tuples, all limited; a batch that is ragged in some component has the
  // bytes there as one more component.
  std::vector<StreamShape> shapes_;
  std::optional<ShapeRoutes> routes_;
  std::vector<OnlinePacker> packers_;

  HeldChunks held_;
  // The chunk being fed and its next graph; held_.end() if none.
  HeldChunks::iterator feeding_ = held_.end();
  size_t next_graph_ = 0;
  // The packer's handles are indexes into this.
  std::vector<PendingGraph> pending_;
  std::vector<uint64_t> free_handles_;
  // As long as every chunk's ids are larger than those of all chunks before, as most streams' are,
  // none can be pending, and none is remembered.
  bool remembers_ids_ = false;
  std::optional<uint64_t> largest_id_;
  absl::flat_hash_set<uint64_t> pending_ids_;
  // Of ids that several pending graphs have, as pieces of one graph do: how many besides the first.
  absl::flat_hash_map<uint64_t, uint32_t> pending_again_;
  uint64_t pending_bytes_ = 0;
  bool flushing_ = false;

  uint64_t num_offered_ = 0;
  uint64_t num_packed_ = 0;
  uint64_t num_batches_ = 0;
  uint64_t num_rejected_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_STREAM_PACKER_H_
