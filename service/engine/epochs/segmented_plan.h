// The plan of epochs that are larger than memory: each segment is planned by itself.
//
// Make() plans each segment once and keeps the numbers of batches: from the sizes of its graphs
// alone, or where more of them decides, as their ids or their order, from the graphs as epochs read
// them. So an epoch's steps are known before it begins, and tracks are equal. A segment's graphs
// are read, and its patterns found again, when an epoch comes to it (PlanOf()). All segments have
// the same shapes; those for a device are chosen by the sizes of all graphs together. Everything
// depends on the data set's version, the seed and the words of the request: all epochs of a job
// share it, and all replicas find the same. A draw is of one epoch: first how many each segment
// draws, then those in it, as a draw of the whole would (DrawShares()); by weights without
// replacement all of them together.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_PLAN_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_PLAN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/epochs/segment_layout.h"
#include "service/engine/epochs/shape_summary.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Lets go of what nobody uses, one after another, until `done` says so or nothing is left.
using MakeRoom = std::function<void(absl::FunctionRef<bool()> done)>;

// Immutable; thread-safe. Some hundred bytes for each chunk, reserved as long as it lives.
class SegmentedPlan {
 public:
  // `request` has `segments`. `opening` is held for the chunks so far; it is given back once the
  // plan holds what they take.
  //
  // INVALID_ARGUMENT for options that do not go with it, for segments of more graphs than an epoch
  // takes (ItemSizes::kMaxItems), for a subset as GraphSelection::Create(), a draw as DrawItems(),
  // and as ChooseShapes(); OUT_OF_RANGE
  // naming a graph that exceeds the limits, if that is an error; DATA_LOSS if the sizes of a graph
  // cannot be read; RESOURCE_EXHAUSTED and CANCELLED as `making`, and RESOURCE_EXHAUSTED naming a
  // segment that the store can never have at hand (DatasetChunks::CheckFits()). O(graphs) time, and
  // the planner's budget for each segment and once more for all graphs together.
  //
  // `given`, if set, is what was found before, possibly by another release. It takes O(chunks)
  // then, and for a draw O(graphs) to learn the segments' shares again.
  static absl::StatusOr<std::shared_ptr<const SegmentedPlan>> Make(
      std::shared_ptr<const DatasetChunks> chunks, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making = {},
      const std::optional<KeptPlannerResult>& given = std::nullopt, MemoryHold opening = {});

  uint64_t bytes() const;

  const DatasetInfo& dataset() const { return chunks_->info(); }
  // Of the batches' graphs.
  const GraphSchema& schema() const {
    return piece_schema_ != nullptr ? piece_schema_->with_pieces() : *chunks_->info().schema;
  }
  size_t num_rank_groups() const { return shapes_.num_rank_groups(); }
  // As EpochShapes: none takes all that an earlier one takes.
  absl::Span<const BatchShape> shapes(size_t rank_group) const {
    return shapes_.rank_group(rank_group);
  }
  // As EpochShapes::why().
  const std::string& why_shapes() const { return shapes_.why(); }
  // As shapes(), of batches as they are planned.
  absl::Span<const ShapeSummary> summaries(size_t rank_group) const {
    return summaries_[rank_group];
  }
  const SegmentChunks& layout() const { return layout_; }
  uint32_t num_tracks() const { return request_.segments->tracks; }

  const SegmentCounts& counts() const { return planned_->segments; }
  uint64_t num_batches(size_t rank_group) const;
  // Of all rank groups.
  uint64_t num_batches() const;
  // No plan of all graphs together has fewer batches; 0 if that is not known, as with several
  // shapes. Without memory for the sizes of all graphs it is a weaker one, so it may differ between
  // servers; batches do not.
  uint64_t lower_bound() const { return planned_->lower_bound; }
  // At most this part of the batches is lost to segmentation.
  double loss() const;
  const std::string& receipt() const { return planned_->receipt; }
  // For making the same plan again. Never null.
  const std::shared_ptr<const PlannerResult>& planned() const { return planned_; }

  // Reads and plans a segment. FAILED_PRECONDITION naming it if this release's planner finds
  // another plan than the one that was counted; other errors as DatasetChunks::Open and
  // EpochPlan::Make. If the store says RESOURCE_EXHAUSTED, `make_room`, unless null, is called. The
  // plan may outlive this. `first_batches`, by rank group: the segment's first batch is this one of
  // an epoch whose steps are of like cost, for which the plan is then alone. Empty: none.
  absl::StatusOr<std::shared_ptr<const EpochPlan>> PlanOf(
      uint32_t segment, const Making& making, const MakeRoom& make_room = nullptr,
      absl::Span<const uint64_t> first_batches = {}) const;
  // The request, as it is for a segment's epoch (PreparedEpoch::Prepare), without weights of a
  // draw. With one segment, the epoch is the one of the whole data set.
  EpochRequest RequestOf(uint32_t segment, const EpochKey& key,
                         absl::Span<const uint64_t> first_batches = {}) const;
  // At most the bytes of a segment's plan and epoch.
  uint64_t BytesOfSegment() const;

 private:
  // What is found while segments are counted.
  struct Counting;

  SegmentedPlan(std::shared_ptr<const DatasetChunks> chunks, EpochRequest request,
                const EpochBounds& bounds, MemoryHold memory);

  // Chooses the shapes, or takes those of `given`, unless null.
  absl::Status SetShapes(const PlannerResult* given, const Making& making);
  // The sizes of all graphs that are selected.
  absl::StatusOr<HeldSizes> SizesOfAll(const Making& making) const;
  // Of a draw with weights: these as integers, once their places are known.
  absl::StatusOr<std::vector<uint32_t>> PlaceWeights(const Making& making);
  // Finds what each segment draws, if the request draws.
  absl::Status SetShares(const Making& making);
  // Draws, of all graphs that fit, by these weights without replacement. What is drawn has weight 1
  // then, and the rest 0; each segment draws all of what it has of weight 1.
  absl::Status DrawOnce(absl::Span<const uint32_t> weights, const std::vector<bool>& fits,
                        const Making& making);
  // A segment's reader, with its memory.
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(uint32_t segment, const Making& making,
                                                            const MakeRoom& make_room) const;
  // Calls `take` with the chunk and the sizes of each graph of a segment that is selected.
  absl::Status ForEachSelected(
      uint32_t segment, const Making& making,
      absl::FunctionRef<absl::Status(uint32_t chunk, absl::Span<const uint32_t> sizes)> take) const;

  // The ids of the subset, ascending.
  absl::Span<const uint64_t> SubsetIds() const;
  // Plans all segments for their numbers of batches.
  absl::Status Count(const Making& making);
  // One of them, which `chunk_sizes` comes to.
  absl::Status CountSegment(uint32_t segment, ChunkSizes& chunk_sizes, const Making& making,
                            Counting& counting);
  // Whether the sizes of a segment's graphs do not say which batches it has, or whether it has
  // them.
  bool NeedsGraphs() const {
    return request_.in_order || request_.subset || request_.draw || request_.cuts_oversize ||
           !request_.min_rows.empty() || (request_.by_score && request_.by_score->tensor);
  }
  // Whether a plan of all graphs together has a bound that is worth knowing.
  bool HasBound() const {
    return !request_.in_order && num_rank_groups() == 1 && shapes(0).size() == 1;
  }
  // As CountSegment(), from the graphs.
  absl::Status CountGraphs(uint32_t segment, const Making& making, Counting& counting);
  void AddCounts(uint32_t segment, const EpochFigures& figures, uint64_t digest,
                 uint64_t num_oversize, Counting& counting) const;
  // INVALID_ARGUMENT naming an id of the subset that no graph has.
  absl::Status CheckFound(const std::vector<bool>& is_found) const;
  // Without memory, the sizes of all graphs are given up.
  absl::Status AddToAll(const SizeHistogram& sizes, const Making& making, Counting& counting) const;
  // The sizes of a segment's graphs that fit a batch. `makes_room` says of an error whether what
  // failed may be tried once more.
  absl::StatusOr<SizeHistogram> SizesOf(uint32_t segment, ChunkSizes& chunk_sizes,
                                        const Making& making,
                                        absl::FunctionRef<bool(const absl::Status&)> makes_room,
                                        MemoryHold& memory, uint64_t& num_oversize) const;
  absl::StatusOr<uint64_t> BoundOf(const SizeHistogram& all, const Making& making) const;
  // A bound from the rows alone.
  uint64_t VolumeOf(const SegmentCounts& counts) const;
  // The memory of a reader of this many graphs in this many chunks. A chunk may be many records.
  uint64_t BytesOfChunks(uint64_t num_graphs, uint64_t num_chunks) const;
  absl::Status CheckGiven(const PlannerResult& given) const;
  // The beginning of receipts: another for planners that may find other plans.
  std::string PlannerWords() const;
  void Summarize();

  const std::shared_ptr<const DatasetChunks> chunks_;
  // Constant after Make(), as all that follows: devices have the shapes that were chosen, and
  // weights are in weights_.
  EpochRequest request_;
  const EpochBounds bounds_;
  const SegmentChunks layout_;
  const MemoryHold memory_;
  // Null unless graphs are cut.
  std::shared_ptr<const PieceSchema> piece_schema_;
  // Of the subset's ids and ranges; of the draw's weights and shares.
  MemoryHold of_lists_;
  MemoryHold of_draw_;
  EpochShapes shapes_;
  // Of a draw: by segment, how many graphs it draws.
  std::vector<uint64_t> shares_;
  // Integers, of the selected graphs in the data set's order; and by chunk, the first of its own,
  // and their end. Empty: all are equal.
  std::vector<double> weights_;
  std::vector<uint64_t> first_weights_;
  // Null until the plan is made.
  std::shared_ptr<const PlannerResult> planned_;
  // By rank group.
  std::vector<std::vector<ShapeSummary>> summaries_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_PLAN_H_
