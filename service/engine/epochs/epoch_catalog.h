// The epochs of all data sets of a store. Each is made once.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_CATALOG_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_CATALOG_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/cancellation.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/gathered_rows.h"
#include "service/engine/epochs/item_kind.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/planner_result.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/sampling_observer.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/epochs/segmented_plan.h"
#include "service/engine/epochs/shared_batches.h"
#include "service/engine/epochs/shared_cache.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// An epoch that nobody loads yet, but somebody may soon. Thread-safe.
class AheadEpoch {
 public:
  // `thing` is the beginning of the catalog's keys of its data set.
  AheadEpoch(std::string thing, std::shared_ptr<const PreparedEpoch> epoch)
      : thing_(std::move(thing)), epoch_(std::move(epoch)) {}

  const std::string& thing() const { return thing_; }
  // Others need its room, or its data set is gone.
  void LetGo();

 private:
  const std::string thing_;
  absl::Mutex mutex_;
  std::shared_ptr<const PreparedEpoch> epoch_ ABSL_GUARDED_BY(mutex_);
};

// All loads of a data set's version share a reader and the links of its parts, all epochs with the
// same words share a plan, and the workers of a job share a prepared epoch. The bytes of all are
// reserved from the memory budget before they are allocated, and as long as they exist. The last
// used ones stay when nobody uses them, up to an eighth of the budget; they are dropped when others
// need their room. Of a data set that is loaded again and again the catalog also keeps a copy of
// the graphs: begun if no more than half of the budget is held with it, and dropped first when
// others need room (gathered_rows.h). Thread-safe; the store and the memory must outlive it and
// everything that it gave.
class EpochCatalog {
 public:
  // If `memory` is null, memory is not bounded. Otherwise `memory` asks the catalog for room.
  EpochCatalog(const DatasetStore* store, const EpochBounds& bounds,
               MemoryBudget* memory = nullptr);
  ~EpochCatalog();

  EpochCatalog(const EpochCatalog&) = delete;
  EpochCatalog& operator=(const EpochCatalog&) = delete;

  // Errors as EpochPlan and PreparedEpoch; NOT_FOUND for a missing data set; RESOURCE_EXHAUSTED
  // naming --memory-budget, the thing that does not fit, its bytes and the bound; CANCELLED if
  // `cancellation` says that nobody waits. It is asked before anything is made, then every
  // millisecond or so, and while another call makes the same. A ready epoch is given in any case,
  // and quickly. Otherwise the first epoch of a plan may take seconds.
  //
  // `kept`, if given, is what a planner found for this request before. The epoch is made from it,
  // even if the planner would now find something else (EpochPlan::Make()). It is ignored if it was
  // found for another version of the data set, and read only if the catalog has not made the same
  // plan itself.
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      const EpochRequest& request, const Cancellation& cancellation = {},
      const std::optional<KeptPlannerResult>& kept = std::nullopt);

  // Prepare() of an epoch that nobody waits for: whoever asks for it, as long as the result lives,
  // finds it ready. Others go first: it takes no room that they have, is made only as long as no
  // more than three quarters of the budget are held, and is let go where its room is needed.
  // `hurry` is called before a plan is made, and where another call, or one for another job, waits
  // for what is made here: from then on somebody waits. Errors as Prepare(); RESOURCE_EXHAUSTED if
  // more is held, or would be; CANCELLED also if that comes while it is made, and if data sets were
  // forgotten meanwhile.
  absl::StatusOr<std::shared_ptr<AheadEpoch>> PrepareAhead(
      const EpochRequest& request, const Cancellation& cancellation,
      const std::optional<KeptPlannerResult>& kept = std::nullopt,
      const std::function<void()>& hurry = nullptr);

  // The same as Prepare() for an epoch of the last of EpochRequest::kinds. Errors of the kind;
  // NOT_FOUND for a missing data set. `plan_first`, if given, plans the first window of a new
  // epoch, perhaps on another thread.
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> PrepareKind(
      const EpochRequest& request, const Cancellation& cancellation = {},
      const PlanFirstWindow& plan_first = nullptr);

  // The same for an epoch in segments (EpochRequest::segments). Errors as SegmentedPlan; NOT_FOUND
  // for a missing data set. The first with its words counts the batches of all segments, which
  // takes O(graphs) time; `kept` spares it that.
  absl::StatusOr<std::shared_ptr<const SegmentedEpoch>> PrepareSegmented(
      const EpochRequest& request, const Cancellation& cancellation = {},
      const std::optional<KeptPlannerResult>& kept = std::nullopt);

  // Is told of draws; null: nobody is. To be called before anything is prepared.
  void SetSamplingObserver(SamplingObserver* observer) { sampling_observer_ = observer; }

  // To be called when a data set was deleted. Its space is free when the last load has ended; plans
  // and epochs of it, and of mixtures with it, that are being made are not kept.
  void Forget(absl::string_view dataset);
  // The same of a thing that a kind makes items of (ItemKind::thing()).
  void ForgetThing(absl::string_view thing);
  // The same of all that is gone or was replaced, whoever has deleted it: other servers, retention.
  // To be called now and then; asks the store once for each data set of which something is kept.
  // What nobody can tell of stays. `version_of_thing` gives the version of the thing (of
  // ItemKind::thing()) that has a name now; NOT_FOUND if there is none.
  void ForgetGone(
      absl::FunctionRef<absl::StatusOr<uint64_t>(absl::string_view thing)> version_of_thing);
  // Lets go of epochs of such things that nobody has used since the last call of this: they keep
  // the things open.
  void ForgetIdleThings() { of_things_.ForgetIdle(); }

  // Batches that are made of the epochs, for several jobs.
  SharedBatches& shared_batches() { return shared_batches_; }

  const EpochBounds& bounds() const { return bounds_; }
  // Null: memory is not bounded.
  MemoryBudget* memory() const { return memory_; }

 private:
  struct OpenedReader {
    MemoryHold memory;
    uint64_t bytes = 0;
    std::shared_ptr<const DatasetReader> reader;
    std::shared_ptr<GatheredRows> gathered;
    // Epochs that were prepared of all its graphs, or of most.
    mutable std::atomic<uint64_t> num_epochs = 0;
  };
  // A copy that exists or may be made, and for how many epochs of others it has not been used.
  struct Gathered {
    std::weak_ptr<GatheredRows> rows;
    uint32_t num_unused = 0;
  };

  // Prepare(); with `hurry`, PrepareAhead().
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> PrepareWith(
      const EpochRequest& request, const Cancellation& cancellation,
      const std::optional<KeptPlannerResult>& kept, std::function<void()> hurry);
  // The reader of a sealed data set as it is now; shared.
  absl::StatusOr<std::shared_ptr<const OpenedReader>> OpenReader(const DatasetInfo& info,
                                                                 const Cancellation& cancellation,
                                                                 const Making& making);
  // Whether the catalog has made the same plan itself.
  bool HasMade(const std::string& plan_key, const KeptPlannerResult& kept);
  // What an epoch that is prepared now makes its batches from; null: from the store.
  std::shared_ptr<GatheredRows> GatheredFor(const DatasetInfo& info, const EpochPlan& plan);
  // Beginnings of the keys of data sets, and mixtures, of which something is kept.
  std::set<std::string> DatasetsInUse() const;
  // Drops what has been made of data sets and begins with the prefix.
  void DropAll(absl::string_view prefix);
  // The rows of all data sets that may be copied, which still exist.
  std::vector<std::shared_ptr<GatheredRows>> AllGathered();
  // The epochs that are held ahead.
  std::vector<std::shared_ptr<AheadEpoch>> AllAhead();
  // The epochs in segments that still exist.
  std::vector<std::shared_ptr<const SegmentedEpoch>> AllSegmented();
  // Lets go of what nobody uses, one after another, until `done` says so or nothing is left. It is
  // asked once before, and then after each; it may take long.
  void ForgetUntil(absl::FunctionRef<bool()> done);
  // Lets go of what nobody uses, and of copies.
  void Reclaim(uint64_t bytes);

  const DatasetStore* const store_;
  const EpochBounds bounds_;
  MemoryBudget* const memory_;
  // ForgetUntil(), for epochs in segments; gone with the catalog.
  const std::shared_ptr<const MakeRoom> make_room_;
  SharedCache<OpenedReader> readers_;
  SharedCache<EpochPlan> plans_;
  SharedCache<PreparedEpoch> epochs_;
  SharedCache<LoadableEpoch> of_things_;
  SharedCache<KeptOfDataset> kept_of_datasets_;
  SharedCache<LoadableEpoch> of_kinds_;  // Of data sets.
  SharedCache<SegmentedPlan> segmented_plans_;
  SharedCache<SegmentedEpoch> segmented_;
  SharedBatches shared_batches_;
  SamplingObserver* sampling_observer_ = nullptr;

  absl::Mutex gathered_mutex_;
  std::vector<Gathered> gathered_ ABSL_GUARDED_BY(gathered_mutex_);
  absl::Mutex segmented_mutex_;
  std::vector<std::weak_ptr<const SegmentedEpoch>> in_segments_ ABSL_GUARDED_BY(segmented_mutex_);
  absl::Mutex ahead_mutex_;
  std::vector<std::weak_ptr<AheadEpoch>> ahead_ ABSL_GUARDED_BY(ahead_mutex_);
  uint64_t num_drops_ ABSL_GUARDED_BY(ahead_mutex_) = 0;  // How often DropAll() was called.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_CATALOG_H_
