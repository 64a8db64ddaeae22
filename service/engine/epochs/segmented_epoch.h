// An epoch of a data set that is larger than memory, segment by segment.
//
// All batches are known when the epoch is made (segmented_plan.h). A batch can be built while its
// segment is in memory: its graphs' sizes and ids, its plan, and which graphs this epoch puts into
// which of its batches. Delivery makes segments before they are needed (Missing(), MakeSegment()),
// and pins those that it uses. Those that nobody pins go when others come, or when anybody needs
// their memory; they can be made again, with the same batches.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_EPOCH_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_EPOCH_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segment_layout.h"
#include "service/engine/epochs/segmented_plan.h"

namespace packhouse {

class SegmentedEpoch final : public LoadableEpoch {
 public:
  // Keeps segments in memory, by their numbers.
  using Pins = std::map<uint32_t, std::shared_ptr<const PreparedEpoch>>;

  // The plan must have been made for `request`. Same request, same batches. Makes no segment.
  // RESOURCE_EXHAUSTED as `making`, whose memory must outlive the epoch. O(segments). `make_room`
  // is called for what a segment needs that others have; null or gone: nobody else has any.
  static absl::StatusOr<std::shared_ptr<const SegmentedEpoch>> Prepare(
      std::shared_ptr<const SegmentedPlan> plan, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making = {},
      std::weak_ptr<const MakeRoom> make_room = {});

  const SegmentedPlan& plan() const { return *plan_; }
  // Its bytes, with those of the segments that it keeps, without those of the plan.
  uint64_t bytes() const;

  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return plan_->schema(); }
  absl::Span<const BatchShape> shapes(size_t rank_group) const override {
    return plan_->shapes(rank_group);
  }
  const SegmentedEpoch* segmented() const override { return this; }
  uint64_t num_graphs() const override { return plan_->counts().num_graphs; }
  std::shared_ptr<const PlannerResult> planned() const override { return plan_->planned(); }
  std::string why_shapes() const override { return plan_->why_shapes(); }
  // Of the segment that the epoch begins with, which is made if it is not there; beside a shuffle
  // of the whole epoch, whose segments keep their graphs.
  absl::StatusOr<std::optional<Company>> MeasureCompany(const Making& making) const override;
  std::optional<Company> known_company() const override;
  // Of that segment; until it is made, of the one that was made first.
  std::optional<StepFigures> steps() const override;
  // All make the batch's segment first if it is not there; NumGraphs() is 0 if that fails.
  uint64_t NumGraphs(uint64_t number) const override;
  absl::StatusOr<GraphsOfBatch> GraphsOf(uint64_t number) const override;
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override;
  absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const override;

  // Replaces the pins by the segments of these batches, as far as they are there. Returns the first
  // that is not.
  std::optional<uint32_t> Pin(absl::Span<const uint64_t> batches, Pins& pins) const;
  // The segment that comes after this batch's in its track, if it should be made now: it is not
  // there, and has not been let go of, or failed ahead, since another was made.
  std::optional<uint32_t> NextMissing(uint64_t batch) const;
  // Makes a segment, unless it is there, and keeps it for a while. Takes seconds. Errors as
  // SegmentedPlan::PlanOf. `is_ahead`: nobody needs it yet. It is OK then even if it cannot be
  // made; it is not asked for again before another was made, and whoever needs it learns why.
  absl::Status MakeSegment(uint32_t segment, bool is_ahead, const Making& making) const;
  // The segment of a batch, and the batch's number there; made first if it is not there.
  absl::StatusOr<std::pair<std::shared_ptr<const PreparedEpoch>, uint32_t>> SegmentOf(
      uint64_t batch) const;
  // Lets go of the kept segment that was not used for longest; who has pinned it keeps it. False if
  // there is none.
  bool ForgetOldest() const;

 private:
  using Segment = std::shared_ptr<const PreparedEpoch>;

  SegmentedEpoch(std::shared_ptr<const SegmentedPlan> plan, const EpochRequest& request,
                 const EpochBounds& bounds, const Making& making,
                 std::weak_ptr<const MakeRoom> make_room);

  // A segment of each track, and the one after it.
  size_t MostKept() const { return 2 * size_t{plan_->num_tracks()}; }
  // Null if it is not there.
  Segment Find(uint32_t segment) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As MakeSegment(). Without `make_room` nothing that others need less is let go of.
  absl::StatusOr<Segment> Make(uint32_t segment, const MakeRoom& make_room,
                               const Making& making) const;
  // Made if it is not there, because somebody needs it.
  absl::StatusOr<Segment> Needed(uint32_t segment, const Making& making) const;
  absl::StatusOr<Segment> SegmentAt(uint32_t segment) const;

  const std::shared_ptr<const SegmentedPlan> plan_;
  const EpochBounds bounds_;
  const bool whole_graphs_;
  MemoryBudget* const memory_;
  const std::weak_ptr<const MakeRoom> make_room_;
  const TrackOrder order_;
  // Constant after Prepare().
  EpochIdentity identity_;
  MemoryHold order_memory_;

  mutable absl::Mutex mutex_;
  // The latest first.
  mutable std::list<std::pair<uint32_t, Segment>> kept_ ABSL_GUARDED_BY(mutex_);
  // All that somebody has.
  mutable std::map<uint32_t, std::weak_ptr<const PreparedEpoch>> alive_ ABSL_GUARDED_BY(mutex_);
  // Those that were asked for when they were not needed yet, or that were let go of.
  mutable std::set<uint32_t> refused_ ABSL_GUARDED_BY(mutex_);
  mutable std::optional<Company> company_ ABSL_GUARDED_BY(mutex_);
  mutable std::optional<StepFigures> steps_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENTED_EPOCH_H_
