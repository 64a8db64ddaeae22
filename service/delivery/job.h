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
// Who wakes whom: LeaseTable::TakeWoken() says which sessions may go on after a change to leases,
// and Job::TellWoken() passes it on; a table that goes wakes all that wait (Job::RetireTable()). A
// session that waits for its join is woken when that is answered.
#ifndef PACKHOUSE_SERVICE_DELIVERY_JOB_H_
#define PACKHOUSE_SERVICE_DELIVERY_JOB_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/admission/memory_budget.h"
#include "service/delivery/delivery_snapshot.h"
#include "service/delivery/epoch_quota.h"
#include "service/delivery/joining.h"
#include "service/delivery/lease_table.h"
#include "service/delivery/ledger_writer.h"
#include "service/ledger/job_ledger.h"

namespace packhouse {

// Runs work soon, on another thread or at once.
using Executor = std::function<void(std::function<void()>)>;

struct JoinResult {
  uint64_t generation = 0;
  // This worker is the first of the generation.
  bool started = false;
  // What was done when the generation started: to load the same again.
  std::string cursor;
};

// What a worker learns when it comes.
struct LoadStart {
  JoinResult join;
  SessionId session = 0;
  EpochProgress progress;
  // Of this worker in this generation, and how many of them are done.
  uint64_t num_steps = 0;
  uint64_t num_steps_done = 0;
  std::shared_ptr<const Dealing> dealing;
};

struct AcknowledgeResult {
  uint64_t num_new = 0;
  // What is done now, by all workers.
  std::string cursor;
};

// What a session gets.
struct Offer : Lease {
  // Nothing comes any more: all is done, or the session does not wait for others, and all is
  // leased.
  bool ends = false;
  // If it ends: of its lane, that are leased and not done.
  uint64_t num_pending = 0;
};

// How an epoch of a job is doing, for people.
struct EpochSummary {
  EpochProgress progress;
  std::string dataset;
  uint64_t num_sessions = 0;
  ClientId client;            // Empty: not known.
  uint64_t used_seconds = 0;  // Since the Unix epoch; 0: not known.
};

// Thread-safe.
class Job : public std::enable_shared_from_this<Job> {
 public:
  // What all jobs of a server have in common. The pointees outlive the jobs.
  struct Environment {
    LedgerWriter* writer = nullptr;
    EpochQuota* quota = nullptr;
    // For the ledger's part, and what is in memory of epochs that are loaded. May be null.
    MemoryBudget* memory = nullptr;
    // For commits that no caller waits for.
    Executor executor;
    // Dynamic workers that are silent for so long give their batches back.
    absl::Duration lease_duration = absl::Minutes(5);
    // So many finished epochs are remembered, for acknowledgements that come late.
    size_t kept_finished_epochs = 8;
    // Epochs that nobody has used for so long are forgotten.
    absl::Duration epoch_retention = absl::InfiniteDuration();
  };

  // Runs of batches that are done, of an epoch: one for each batch that others have overtaken.
  static constexpr size_t kMaxRuns = 65536;

  // One stream of one worker, from StartJoin() to Leave().
  class Session;

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

  // Nothing if it is not in the ledger.
  std::optional<EpochIdentity> IdentityOf(uint64_t epoch) const;
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
  struct Operation;
  struct JoinOperation;
  struct AcknowledgeOperation;
  struct ForgetOperation;
  // The ledger as the operations planned so far will leave it.
  struct Pending;

  using Wakes = std::vector<std::function<void()>>;

  // What is in memory of an epoch that somebody loads: some bytes a batch.
  struct OpenEpoch {
    // Of the current generation, whose number it is.
    uint64_t generation = 0;
    std::unique_ptr<LeaseTable> table;
    uint64_t table_bytes = 0;
    LeaseCounters earlier;  // Of tables before it.
    // That have joined, in this generation or an earlier one, and have not left.
    std::map<SessionId, std::shared_ptr<Session>> sessions;
    // Dynamic: the sessions of workers that ended while others worked; some may have gone.
    std::map<std::string, SessionId> ended;
    uint64_t used_seconds = 0;
  };

  // What is left of that when nobody loads it.
  struct RestingEpoch {
    uint64_t generation = 0;
    BatchSet sent;  // And not done.
    uint64_t used_seconds = 0;
  };

  // Queues an operation and returns when it has been answered.
  absl::Status Perform(const std::shared_ptr<Operation>& operation);
  // Commits what is in the queue. `committing_` has been set by the caller, and is unset here.
  void CommitQueued();
  void CommitIfNobodyDoes();
  // True if the caller is to have CommitIfNobodyDoes() run.
  bool NeedsCommitter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EpochKey KeyOf(uint64_t epoch) const { return {name_, epoch}; }
  // The leases of an epoch of the ledger. O(batches) for the first time.
  absl::StatusOr<OpenEpoch*> Open(const EpochKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets go of what is in memory of an epoch, if nobody loads it, and nothing of it is leased.
  void RestIfIdle(uint64_t epoch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t UsedSeconds(const EpochState& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes of a table, at most.
  static uint64_t TableBytes(const EpochState& state);
  void SetTable(OpenEpoch& epoch, std::unique_ptr<LeaseTable> table, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the memory budget, before they are allocated; what is not needed after all is given back.
  absl::Status Reserve(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RetireTable(OpenEpoch& epoch, Wakes& wakes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of an epoch that the ledger does not have any more.
  void Close(const EpochKey& key, Wakes& wakes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // To be called after each change to leases.
  void TellWoken(OpenEpoch& epoch, Wakes& wakes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The epoch that a session has joined. FAILED_PRECONDITION or NOT_FOUND unless it may lease.
  absl::StatusOr<OpenEpoch*> EpochOf(const Session& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const Environment& environment_;

  mutable absl::Mutex mutex_;
  // Replaced by whoever commits, and by nobody else.
  JobLedger ledger_ ABSL_GUARDED_BY(mutex_);
  // By number.
  std::map<uint64_t, std::unique_ptr<OpenEpoch>> epochs_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, RestingEpoch> resting_ ABSL_GUARDED_BY(mutex_);
  LeaseCounters closed_ ABSL_GUARDED_BY(mutex_);  // Of epochs that are not open any more.
  uint64_t num_generations_ ABSL_GUARDED_BY(mutex_) = 0;

  MemoryHold memory_ ABSL_GUARDED_BY(mutex_);
  uint64_t open_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the tables of epochs_.

  std::vector<std::shared_ptr<Operation>> queue_ ABSL_GUARDED_BY(mutex_);
  bool committing_ ABSL_GUARDED_BY(mutex_) = false;
  bool committer_called_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_JOB_H_
