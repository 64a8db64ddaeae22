// Made batches that jobs share: those of a sweep load the same epoch at about the same pace. So do
// evaluations of one epoch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHARED_BATCHES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHARED_BATCHES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/algorithms/collation/tensor_framing.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/shared_cache.h"

namespace packhouse {

// As long as several jobs load the same epoch, which is the same but for the job's name, a batch
// that is made for one of them is kept until all have had it, or others need its room. A job that
// is so far behind makes its own. So jobs get what they would get alone, byte for byte, and who
// gets which batch is decided elsewhere. Thread-safe.
class SharedBatches {
 public:
  // At most `kept_bytes` of batches that no stream has are kept, and none is while more than three
  // quarters of `memory` are held, or would be. Null: memory is not bounded. `framing` is that of
  // the batches, or null. Both must outlive this.
  SharedBatches(uint64_t kept_bytes, MemoryBudget* memory, const TensorFraming* framing)
      : memory_(memory),
        framing_(framing),
        made_(kept_bytes, [](const Made& made) { return made.bytes; }) {}

  // A stream of a job's worker. Thread-compatible.
  class Member;
  // `epoch` is what it loads. The result must not outlive this.
  std::unique_ptr<Member> Join(const EpochIdentity& epoch);
  // The same of an evaluation, which is as a job of its own. Those with the same `share` load the
  // same batches; others share none with it.
  std::unique_ptr<Member> JoinPass(const EpochIdentity& epoch, absl::string_view share);

  // Forgets the batch that no stream has had for the longest time; false if there is none.
  bool ForgetOldest() { return made_.ForgetOldest(); }

  // Batches that a job was given which another had made.
  uint64_t num_taken() const { return num_taken_.load(std::memory_order_relaxed); }

 private:
  struct Made {
    MemoryHold memory;
    uint64_t bytes = 0;
    BuiltBatch built;
    // The jobs that have had it. Guarded by SharedBatches::mutex_.
    mutable std::set<std::string> takers;
  };
  // Those who load one epoch.
  struct Group {
    uint64_t number = 0;  // Another one each time.
    // The number of streams, by job. Guarded by SharedBatches::mutex_.
    std::map<std::string, size_t> streams;
    std::atomic<size_t> num_jobs = 0;
  };
  struct Hash {
    size_t operator()(const EpochIdentity& epoch) const;
  };

  std::unique_ptr<Member> JoinAs(EpochIdentity of_all, std::string job);
  // Takes `built`, or has no room for it.
  absl::StatusOr<std::shared_ptr<const Made>> Keep(BuiltBatch& built) const;
  absl::StatusOr<BuiltBatch> Build(const Group& group, const std::string& job,
                                   const LoadableEpoch& epoch, uint64_t number);
  void Leave(const EpochIdentity& of_all, const std::string& job);

  MemoryBudget* const memory_;
  const TensorFraming* const framing_;
  SharedCache<Made> made_;
  std::atomic<uint64_t> num_taken_ = 0;
  std::atomic<uint64_t> num_passes_ = 0;

  absl::Mutex mutex_;
  uint64_t num_groups_ ABSL_GUARDED_BY(mutex_) = 0;
  // By what they load, with no job's name.
  absl::flat_hash_map<EpochIdentity, std::shared_ptr<Group>, Hash> groups_ ABSL_GUARDED_BY(mutex_);
};

class SharedBatches::Member {
 public:
  ~Member() { batches_->Leave(of_all_, job_); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // As Build() of the epoch that was joined, at the BatchPlace of this thread, too. May wait while
  // another thread makes the same batch, which takes no longer than to make it here.
  absl::StatusOr<BuiltBatch> Build(const LoadableEpoch& epoch, uint64_t number) const {
    return batches_->Build(*group_, job_, epoch, number);
  }

 private:
  friend class SharedBatches;
  Member(SharedBatches* batches, EpochIdentity of_all, std::string job,
         std::shared_ptr<const Group> group)
      : batches_(batches),
        of_all_(std::move(of_all)),
        job_(std::move(job)),
        group_(std::move(group)) {}

  SharedBatches* const batches_;
  const EpochIdentity of_all_;
  const std::string job_;
  const std::shared_ptr<const Group> group_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SHARED_BATCHES_H_
