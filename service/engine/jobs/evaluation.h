// One pass over an epoch's batches. The service keeps nothing of it.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_EVALUATION_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_EVALUATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/epochs/shared_batches.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/load_event.h"
#include "service/engine/jobs/segment_makings.h"

namespace packhouse {

// Which steps of which rank.
struct EvaluationRequest {
  // Ranked.
  Sharing sharing = Sharing::Ranked(1);
  uint32_t rank = 0;
  uint64_t first_step = 0;
  // NextPlace() gives the batches of all ranks instead, step by step; `rank` is then 0.
  bool is_of_all_ranks = false;
};

// One stream. Its batches depend on the epoch and the request alone. Thread-compatible.
class Evaluation {
 public:
  // Has a segment made (SegmentedEpoch::MakeSegment), or a window planned, here or on another
  // thread, and calls `made` then; not needed once this is gone (`is_over`).
  using MakeSegment = std::function<void(uint32_t segment, SegmentMakings::Waiter waiter)>;

  // INVALID_ARGUMENT for a rank that does not exist, naming it, for dynamic sharing, or as Dealing;
  // OUT_OF_RANGE naming a first step above the number of steps; RESOURCE_EXHAUSTED if `memory`,
  // which may be null, has no room. O(batches).
  //
  // Windows of the epoch must all have been planned (ItemKind::Complete()). If it has windows or is
  // in segments, `make` makes those that are not kept, and `wake` is called when Next() has said to
  // wait and may have more; any thread may call it, also when this is gone.
  // `shared`, unless null, has what other evaluations of the same share have made, and must outlive
  // this.
  static absl::StatusOr<std::unique_ptr<Evaluation>> Open(
      std::shared_ptr<const LoadableEpoch> epoch, EvaluationRequest request, MemoryBudget* memory,
      MakeSegment make = nullptr, std::function<void()> wake = nullptr,
      SharedBatches* shared = nullptr);
  // Segments that it ordered need not be made any more.
  ~Evaluation() { making_->is_over = true; }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  // Its steps, without opening it. Errors as Open, except RESOURCE_EXHAUSTED. O(ranks).
  static absl::StatusOr<EpochShare> ShareOf(const LoadableEpoch& epoch,
                                            const EvaluationRequest& request);

  const LoadableEpoch& epoch() const { return *epoch_; }
  const std::shared_ptr<const LoadableEpoch>& shared_epoch() const { return epoch_; }
  uint64_t num_steps() const { return dealing_.queue_length(rank_); }
  uint64_t first_step() const { return first_step_; }
  const EpochShare& share() const { return share_; }

  // The next step's batch, or kEnd after the last. DATA_LOSS as PreparedEpoch::Build. Of an epoch
  // in segments or windows: kWait while one is made, and why one that is needed could not be made;
  // the call after that has it made again.
  absl::StatusOr<LoadEvent> Next();
  // The same without the batch's contents; of all ranks, also without graphs_of_step. A batch's
  // segment stays in memory until the next call.
  absl::StatusOr<LoadEvent> NextPlace();

 private:
  // The segments that are being made, by whom this may not live to see it.
  struct Making {
    absl::Mutex mutex;
    std::set<uint32_t> under_way ABSL_GUARDED_BY(mutex);
    // Of those that were needed, until they are told.
    std::map<uint32_t, absl::Status> failures ABSL_GUARDED_BY(mutex);
    // The evaluation is gone.
    std::atomic<bool> is_over = false;
  };

  Evaluation(std::shared_ptr<const LoadableEpoch> epoch, Dealing dealing, const EpochShare& share,
             const EvaluationRequest& request, MakeSegment make, std::function<void()> wake,
             std::unique_ptr<SharedBatches::Member> shared)
      : epoch_(std::move(epoch)),
        dealing_(std::move(dealing)),
        rank_(request.rank),
        first_step_(request.first_step),
        share_(share),
        is_of_all_ranks_(request.is_of_all_ranks),
        make_(std::move(make)),
        wake_(std::move(wake)),
        shared_(std::move(shared)),
        next_step_(request.first_step),
        next_rank_(request.rank) {}

  // The place of the next batch.
  absl::StatusOr<LoadEvent> PlaceOfNext();
  void Advance();
  // Whether the segments of the next step are pinned, or its windows are there; if not, the first
  // that is missing is made.
  absl::StatusOr<bool> HasSegments();
  // The first segment or window of the batches that is not there. Pins segments.
  std::optional<uint64_t> FirstMissing(absl::Span<const uint64_t> batches);
  // What comes after a batch, if it should be made ahead.
  std::optional<uint64_t> NextMissing(uint64_t batch) const;
  void Begin(uint32_t segment, bool is_ahead);

  const std::shared_ptr<const LoadableEpoch> epoch_;
  const Dealing dealing_;
  const uint32_t rank_;
  const uint64_t first_step_;
  const EpochShare share_;
  const bool is_of_all_ranks_;
  const MakeSegment make_;
  const std::function<void()> wake_;
  const std::unique_ptr<SharedBatches::Member> shared_;
  uint64_t next_step_;
  uint32_t next_rank_;
  SegmentedEpoch::Pins pins_;
  std::optional<uint64_t> pinned_step_;  // Whose segments these are.
  const std::shared_ptr<Making> making_ = std::make_shared<Making>();
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_EVALUATION_H_
