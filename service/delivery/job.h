// One job: its part of the ledger, who loads its epochs, and the queue of what is to be made
// durable of it.
//
// Whatever changes the ledger is an operation: a worker joins, batches are acknowledged, epochs are
// forgotten. Operations wait in a queue. One thread at a time commits: it takes all that wait,
// plans them in their order against the ledger as those before will leave it, writes all their
// events as one append, without the mutex, and then applies them and answers. So N operations that
// come at once take two appends: what came first, and all that came while that was written. The
// mutex is never held while the disk, the log, or another job is waited for.
//
// What a job has, and who wakes whom when it changes: job_state.h. The operations:
// join_operation.h, acknowledge_operation.h, forget_operation.h.
#ifndef PACKHOUSE_SERVICE_DELIVERY_JOB_H_
#define PACKHOUSE_SERVICE_DELIVERY_JOB_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/delivery/acknowledge_operation.h"
#include "service/delivery/delivery_snapshot.h"
#include "service/delivery/job_operation.h"
#include "service/delivery/job_session.h"
#include "service/delivery/job_state.h"
#include "service/delivery/joining.h"
#include "service/delivery/lease_table.h"
#include "service/epochs/epoch_identity.h"
#include "service/ledger/job_ledger.h"
#include "service/ledger/kept_plan.h"

namespace packhouse {

// What a session gets.
struct Offer : Lease {
  // Nothing comes any more: all is done, or the session does not wait for others, and all is
  // leased.
  bool ends = false;
  // If it ends: of its lane, that are leased and not done.
  uint64_t num_pending = 0;
};

// Thread-safe. Where there is no memory left, what is asked for fails with RESOURCE_EXHAUSTED, or
// throws std::bad_alloc before anything has changed; nothing that is durable is lost.
class Job : public std::enable_shared_from_this<Job> {
 public:
  using Environment = JobEnvironment;
  // One stream of one worker, from StartJoin() to Leave().
  using Session = JobSession;

  // Runs of batches that are done, of an epoch.
  static constexpr size_t kMaxRuns = AcknowledgeOperation::kMaxRuns;

  // `ledger` has nothing but epochs of this job, for each of which the quota has been taken. It is
  // there whatever the memory budget says; what comes to it later is reserved.
  Job(std::string name, JobLedger ledger, const Environment* environment);

  const std::string& name() const { return name_; }

  // A worker comes in, as PlanJoin() says. A rank's new session takes over from the one before;
  // readers of another number from all of its sessions, in the same generation. A dynamic worker's
  // takes over what its last one had in flight when it ended.
  // The join is committed by whoever commits next; `wake` is called if the session was told to wait
  // for that, and later when Next() of the session has said to wait and may have more now. It must
  // not block, may be called by any thread, and, once more, after the session has left. `id` was
  // never used before. `pin` is kept until the session has left and its join has been answered.
  //
  // RESOURCE_EXHAUSTED by the quota or the memory budget, and the errors of PlanJoin() and the log,
  // come with Started().
  std::shared_ptr<Session> StartJoin(const EpochIdentity& identity, JoinRequest request,
                                     SessionId id, size_t max_in_flight, std::function<void()> wake,
                                     std::shared_ptr<const void> pin);
  // Nothing as long as the join has not been committed; with `may_wait` the session waits then.
  absl::StatusOr<std::optional<LoadStart>> Started(Session& session, bool may_wait);
  // Blocks until it has been answered.
  void AwaitStarted(const Session& session) const;
  // The next batch for a session that has started, or why there is none now. NOT_FOUND if the epoch
  // was forgotten; FAILED_PRECONDITION, saying why, if it has no part in the current generation:
  // its stream ends.
  absl::StatusOr<Offer> Next(Session& session, absl::Time now);
  // Whether Next(), or Started(), would tell it to wait.
  bool WouldWait(const Session& session) const;
  // Gives back what it has not acknowledged, unless Next() has ended it while others work: then
  // that stays leased to it. To be called once.
  void Leave(Session& session);

  // All or nothing; durable when it returns OK. A batch may be acknowledged again, by anyone.
  // Blocks.
  //
  // NOT_FOUND for an epoch that is not there; FAILED_PRECONDITION as CheckGeneration();
  // INVALID_ARGUMENT for a batch that the generation does not deal; RESOURCE_EXHAUSTED if what is
  // done would have gaps beyond kMaxRuns, or the memory budget has no room. Those of the log: then
  // it may be done or not, try again.
  absl::StatusOr<AcknowledgeResult> Acknowledge(uint64_t epoch, SessionId session,
                                                uint64_t generation,
                                                absl::Span<const uint64_t> batches, absl::Time now);

  // Where the epoch stands when every rank has done `steps` steps of this generation and no more,
  // whatever has been acknowledged: for checkpoints of a trainer whose ranks go in step.
  // NOT_FOUND and FAILED_PRECONDITION as Acknowledge, or if the epoch is not ranked; OUT_OF_RANGE
  // for more steps than there are. O(batches).
  absl::StatusOr<std::string> CursorAtStep(uint64_t epoch, uint64_t generation, uint64_t steps);

  // Forgets all epochs. NOT_FOUND if there are none. Blocks.
  absl::Status Forget();
  // Forgets those that nobody has used for so long as the environment says; returns how many. An
  // epoch of which that is not known counts as used now. Blocks.
  absl::StatusOr<size_t> ForgetUnused(absl::Time now);

  // Lets go of what is in memory of epochs that nobody loads: most go when the last session leaves,
  // but acknowledgements may come later.
  void Rest();
  // Of the epochs that are in memory.
  size_t num_open() const;

  // Gives back leases that have expired. When the next one does.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // What an epoch was opened with. Nothing if it is not in the ledger.
  struct Opened {
    EpochIdentity identity;
    std::shared_ptr<const KeptPlan> plan;  // Null if none is kept.
  };
  std::optional<Opened> OpenedAs(uint64_t epoch) const;
  // Of an epoch, which need not be there. FAILED_PRECONDITION if it is there and another one.
  absl::StatusOr<EpochProgress> ProgressOf(const EpochIdentity& identity) const;
  // By number, the highest first.
  std::vector<EpochSummary> Epochs() const;
  // Adds to it, but for the number of epochs.
  void AddTo(DeliverySnapshot& snapshot) const;
  // The ledger now, sharing what does not change. O(epochs).
  JobLedger ForkLedger();
  // Whether there is nothing left of it, and nothing under way.
  bool IsForgotten() const;

 private:
  // Queues an operation and returns when it has been answered.
  absl::Status Perform(const std::shared_ptr<JobOperation>& operation);
  // Commits what is in the queue. `committing_` has been set by the caller, and is unset here.
  void CommitQueued();
  void CommitIfNobodyDoes();
  void PlanAll(const std::vector<std::shared_ptr<JobOperation>>& operations,
               PendingChanges& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has CommitIfNobodyDoes() run soon; here if there is no memory to have it run elsewhere.
  void CallCommitter() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunAll(const Wakes& wakes) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Offer> NextOrLose(Session& session, absl::Time now, Wakes& wakes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // True if the caller is to do CallCommitter().
  bool NeedsCommitter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EpochKey KeyOf(uint64_t epoch) const { return {name_, epoch}; }

  const std::string name_;
  const JobEnvironment& environment_;

  mutable absl::Mutex mutex_;
  // Its ledger is replaced by whoever commits, and by nobody else.
  JobState state_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::shared_ptr<JobOperation>> queue_ ABSL_GUARDED_BY(mutex_);
  // What is being committed was planned against `state_`: nothing that is in memory goes meanwhile.
  bool committing_ ABSL_GUARDED_BY(mutex_) = false;
  bool committer_called_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_gathering_ ABSL_GUARDED_BY(mutex_) = false;  // The committer that is called may wait.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_JOB_H_
