// The plan of epochs that are larger than memory: each segment is planned by itself.
//
// Make() plans each segment once and keeps the numbers of batches: from the sizes of its graphs
// alone, or where more of them decides, as their ids or their order, from the graphs as epochs read
// them. So an epoch's steps are known before it begins, and tracks are equal. A segment's graphs
// are read, and its patterns found again, when an epoch comes to it (PlanOf()). Everything depends
// on the data set's version, the seed and the words of the request: all epochs of a job share it,
// and all replicas find the same.
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
  // takes (ItemSizes::kMaxItems), for a subset as GraphSelection::Create(), and as
  // BatchShape::Resolve; OUT_OF_RANGE
  // naming a graph that exceeds the limits, if that is an error; DATA_LOSS if the sizes of a graph
  // cannot be read; RESOURCE_EXHAUSTED and CANCELLED as `making`, and RESOURCE_EXHAUSTED naming a
  // segment that the store can never have at hand (DatasetChunks::CheckFits()). O(graphs) time, and
  // the planner's budget for each segment and once more for all graphs together.
  //
  // `given`, if set, is what was found before, possibly by another release. It takes O(chunks)
  // then.
  static absl::StatusOr<std::shared_ptr<const SegmentedPlan>> Make(
      std::shared_ptr<const DatasetChunks> chunks, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making = {},
      const std::optional<KeptPlannerResult>& given = std::nullopt, MemoryHold opening = {});

  uint64_t bytes() const;

  const DatasetInfo& dataset() const { return chunks_->info(); }
  const GraphSchema& schema() const { return *chunks_->info().schema; }
  // Of the one rank group: one.
  absl::Span<const BatchShape> shapes() const { return shapes_.rank_group(0); }
  // Of that shape.
  const ShapeSummary& summary() const { return summary_; }
  const SegmentChunks& layout() const { return layout_; }
  uint32_t num_tracks() const { return request_.segments->tracks; }

  const SegmentCounts& counts() const { return planned_->segments; }
  uint64_t num_batches() const { return summary_.num_batches; }
  // No plan of all graphs together has fewer batches; 0 if that is not known. Without memory for
  // the sizes of all graphs it is a weaker one, so it may differ between servers; batches do not.
  uint64_t lower_bound() const { return planned_->lower_bound; }
  // At most this part of the batches is lost to segmentation.
  double loss() const;
  const std::string& receipt() const { return planned_->receipt; }
  // For making the same plan again. Never null.
  const std::shared_ptr<const PlannerResult>& planned() const { return planned_; }

  // Reads and plans a segment. FAILED_PRECONDITION naming it if this release's planner finds
  // another plan than the one that was counted; other errors as DatasetChunks::Open and
  // EpochPlan::Make. If the store says RESOURCE_EXHAUSTED, `make_room`, unless null, is called. The
  // plan may outlive this. `first_batch`: the segment's first batch is this one of an epoch whose
  // steps are of like cost, for which the plan is then alone.
  absl::StatusOr<std::shared_ptr<const EpochPlan>> PlanOf(uint32_t segment, const Making& making,
                                                          const MakeRoom& make_room = nullptr,
                                                          uint64_t first_batch = 0) const;
  // The request, as it is for a segment's epoch (PreparedEpoch::Prepare). With one segment, the
  // epoch is the one of the whole data set.
  EpochRequest RequestOf(uint32_t segment, const EpochKey& key, uint64_t first_batch = 0) const;
  // At most the bytes of a segment's plan and epoch.
  uint64_t BytesOfSegment() const;

 private:
  SegmentedPlan(std::shared_ptr<const DatasetChunks> chunks, EpochRequest request,
                const EpochBounds& bounds, MemoryHold memory);

  // The ids of the subset, ascending.
  absl::Span<const uint64_t> SubsetIds() const;
  // Plans all segments for their numbers of batches.
  absl::Status Count(const Making& making);
  // One of them, which `chunk_sizes` comes to. Its sizes that fit are added to `all`, which becomes
  // null if there is no memory.
  absl::Status CountSegment(uint32_t segment, ChunkSizes& chunk_sizes, const Making& making,
                            std::optional<SizeHistogram>& all, MemoryHold& memory,
                            PlannerResult& found);
  // Whether the sizes of a segment's graphs do not say which batches it has.
  bool NeedsGraphs() const {
    return request_.in_order || request_.subset || !request_.min_rows.empty();
  }
  // As CountSegment(), from the graphs. `is_found`: of the ids of the subset, those that some
  // segment so far has.
  absl::Status CountGraphs(uint32_t segment, const Making& making,
                           std::optional<SizeHistogram>& all, MemoryHold& memory,
                           std::vector<bool>& is_found, PlannerResult& found);
  // INVALID_ARGUMENT naming an id of the subset that no graph has.
  absl::Status CheckFound(const std::vector<bool>& is_found) const;
  absl::Status AddToAll(const SizeHistogram& sizes, const Making& making,
                        std::optional<SizeHistogram>& all, MemoryHold& memory) const;
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
  const EpochRequest request_;
  const EpochBounds bounds_;
  const SegmentChunks layout_;
  const MemoryHold memory_;
  // Of the subset's ids and ranges.
  MemoryHold of_subset_;
  EpochShapes shapes_;
  // Null until the plan is made.
  std::shared_ptr<const PlannerResult> planned_;
  ShapeSummary summary_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_PLAN_H_
