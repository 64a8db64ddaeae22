// One job: its ledger and the log of it, the sessions that load its epochs, and the queue of
// changes that wait to become durable.
//
// Every change to the ledger is an operation: a worker joins, batches are acknowledged, epochs are
// forgotten. Operations wait in a queue. One thread at a time commits. It takes all waiting
// operations and plans them in order, each against the ledger as the earlier ones will leave it. It
// writes all their events as one append, without the mutex, and then applies them and answers. So N
// operations that come at the same time take two appends: one for the first, and one for all that
// came while the first was written. The mutex is never held while waiting for the disk, the log, or
// another job. Changes of several jobs share the disk's flushes: their logs see to that.
//
// A log that has become long is replaced by a shorter one of the same ledger. That is one more turn
// of the committing thread: nothing is committed meanwhile, so the log has what the ledger has.
//
// job_state.h has the state of a job, and says who wakes whom when it changes. The operations are
// in join_operation.h, acknowledge_operation.h and forget_operation.h.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/base/early_end.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/jobs/acknowledge_operation.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/job_operation.h"
#include "service/engine/jobs/job_session.h"
#include "service/engine/jobs/job_state.h"
#include "service/engine/jobs/join_burst.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/kept_plan.h"
#include "service/engine/jobs/lease_table.h"
#include "service/engine/jobs/next_epoch.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// The next batch of a session, or why there is none.
struct Offer : Lease {
  // No more batches come: all are done, or all are leased and the session does not wait for others.
  bool ends = false;
  // If it ends: batches of its queue that are leased and not done.
  uint64_t num_pending = 0;
  // The fields below are for an epoch with windows.
  bool is_padding = false;
  // The batches of the step, without padding; ranked only, if one is leased.
  std::vector<uint64_t> batches_of_step;
  // Steps of the session's reader that are known.
  uint64_t num_steps = 0;
  // A window that the caller must now plan (Job::WindowPlanned()).
  std::optional<uint64_t> plan_window;
};

// A job, for people.
struct JobSummary {
  std::string name;
  // The highest number first; not all of them if there are many.
  std::vector<EpochSummary> epochs;
  uint64_t num_epochs = 0;
  uint64_t num_sessions = 0;
  uint64_t used_seconds = 0;  // That of its latest epoch.
  std::string owner = {};     // The server that has it, where several share the jobs.
};

// Thread-safe. If there is no memory left, calls fail with RESOURCE_EXHAUSTED, or throw
// std::bad_alloc before anything has changed. Nothing durable is lost.
class Job : public std::enable_shared_from_this<Job> {
 public:
  using Environment = JobEnvironment;
  // One stream of one worker, from StartJoin() to Leave().
  using Session = JobSession;

  // Runs of batches that are done, of an epoch.
  static constexpr size_t kMaxRuns = AcknowledgeOperation::kMaxRuns;

  // Sessions of a job are numbered from its log's owner_revision() on: up to 2^20 of them.
  static constexpr int kSessionBits = 20;

  // `ledger` is what `log`, which is this job's own, says with `num_records` records. It takes its
  // epochs from the quota, also beyond that, until the job is destroyed; and it may exceed the
  // memory budget: later additions are reserved.
  Job(std::string name, JobLedger ledger, std::shared_ptr<RecordLog> log, size_t num_records,
      const Environment* environment);
  // No session is left, and nothing is under way.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const std::string& name() const { return name_; }
  // To be asked about the log's ownership() before anything of the job is sent.
  RecordLog& log() const { return *log_; }
  // Ends the job's streams when it is lost. When that has begun, the job stays as it is until the
  // last of them has gone.
  EarlyEnd& early_end() { return early_end_; }
  // What is made ready for the epoch after the one that is loaded. Let go when the job is
  // forgotten, or nobody has loaded anything of it from one Rest() to the next.
  NextEpoch& next() { return next_; }
  // Another one each time.
  SessionId NewSession() { return next_session_.fetch_add(1, std::memory_order_relaxed); }

  // A worker joins, as PlanJoin() says. A rank's new session takes over from its previous one; if
  // the number of readers changes, it takes over from all sessions of the rank, in the same
  // generation. A dynamic worker's new session takes over the batches that were in flight when its
  // last one ended. The next commit makes the join durable. `wake` is called then if the session
  // was told to wait for it, and later whenever Next() of the session has said to wait and may have
  // more now. `wake` must not block. Any thread may call it, and it may be called once more after
  // the session has left. `id` must never have been used before. `pin` is kept until the session
  // has left and its join has been answered.
  //
  // Started() reports RESOURCE_EXHAUSTED by the quota or the memory budget, and the errors of
  // PlanJoin() and the log.
  std::shared_ptr<Session> StartJoin(const EpochIdentity& identity, JoinRequest request,
                                     SessionId id, size_t max_in_flight, std::function<void()> wake,
                                     std::shared_ptr<const void> pin);
  // nullopt as long as the join has not been committed; with `may_wait` the session then waits.
  absl::StatusOr<std::optional<LoadStart>> Started(Session& session, bool may_wait);
  // Blocks until the join has been answered.
  void AwaitStarted(const Session& session) const;
  // The next batch for a session that has started, or why there is none now. NOT_FOUND if the epoch
  // was forgotten; FAILED_PRECONDITION, saying why, if the session has no part in the current
  // generation; its stream must end.
  absl::StatusOr<Offer> Next(Session& session, absl::Time now);
  // A leased batch cannot be built before the window is planned. True if the caller must plan it;
  // otherwise another one does. The session is woken then. Errors: as Next(), or why planning
  // failed (WindowPlans::Need()).
  absl::StatusOr<bool> AwaitWindow(Session& session, uint64_t window);
  // The same of a window that no batch is missing yet: nobody waits, and nobody is told of
  // failures.
  absl::StatusOr<bool> PlanAhead(const Session& session, uint64_t window);
  // A window was planned for this opening of the epoch (JobSession::opening), or could not be.
  // `counts`: as EpochWindows::Counts(). Makes the numbers durable, deals the new batches, and
  // wakes the epoch's sessions. If the epoch was forgotten since, also if it was begun anew,
  // nothing happens. Blocks. The same for segments (segmented_epoch.h), whose numbers of batches
  // are known; `counts` is empty then.
  void WindowPlanned(uint64_t epoch, uint64_t opening, uint64_t window,
                     std::vector<uint32_t> counts, absl::Status status);
  // Whether the job still has this opening of the epoch: otherwise its windows need no planning.
  bool Has(uint64_t epoch, uint64_t opening) const;
  // Whether Next(), or Started(), would tell it to wait.
  bool WouldWait(const Session& session) const;
  // The flag tells those who look on whether its batches go through memory that it shares.
  void ListSharing(Session& session, std::shared_ptr<const std::atomic<bool>> shares_memory);
  // Gives back the batches that it has not acknowledged. If Next() has ended it while others work,
  // they stay leased to it instead. May be called once.
  void Leave(Session& session);

  // Acknowledges all of the batches or none; durable when it returns OK. Any caller may acknowledge
  // a batch again. Blocks.
  //
  // NOT_FOUND for an epoch that does not exist; FAILED_PRECONDITION as CheckGeneration();
  // INVALID_ARGUMENT for a batch that the generation does not deal; RESOURCE_EXHAUSTED if the done
  // batches would have more than kMaxRuns runs, or the memory budget has no room. After an error of
  // the log the batches may be done or not: try again.
  absl::StatusOr<AcknowledgeResult> Acknowledge(uint64_t epoch, SessionId session,
                                                uint64_t generation,
                                                absl::Span<const uint64_t> batches, absl::Time now);

  // The cursor of the epoch when every rank has done exactly `steps` steps of this generation,
  // whatever has been acknowledged. For checkpoints of a trainer whose ranks go in step. NOT_FOUND
  // and FAILED_PRECONDITION as Acknowledge, or if the epoch is not ranked; OUT_OF_RANGE for more
  // steps than there are. O(batches).
  absl::StatusOr<std::string> CursorAtStep(uint64_t epoch, uint64_t generation, uint64_t steps);

  // Forgets all epochs. NOT_FOUND if there are none. Blocks.
  absl::Status Forget();
  // Forgets epochs that nobody has used for as long as the environment says; returns how many. An
  // epoch without a known last use counts as used now. Blocks.
  absl::StatusOr<size_t> ForgetUnused(absl::Time now);

  // Frees the memory of epochs that nobody loads. Called now and then. Usually that happens when
  // the last session leaves, but acknowledgements may come later.
  void Rest();
  // The number of epochs that are in memory.
  size_t num_open() const;

  // Gives back expired leases; the time at which the next lease expires.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // What an epoch was opened with; nullopt if it is not in the ledger.
  struct Opened {
    EpochIdentity identity;
    std::shared_ptr<const KeptPlan> plan;  // Null if none is kept.
    std::string words;                     // EpochWorded; empty if none are kept.
    std::vector<uint32_t> windows;         // EpochState::windows.
  };
  std::optional<Opened> OpenedAs(uint64_t epoch) const;
  // The same of the epoch, or else of the one nearest to it, a later one rather than an earlier
  // one. NOT_FOUND if the job has no epochs.
  absl::StatusOr<Opened> OpenedNear(uint64_t epoch) const;
  // The same of the first epoch that may be shown and whose kept plan has this receipt. `may_show`
  // is called under the job's mutex: it must not block.
  std::optional<Opened> OpenedWithPlan(
      absl::string_view receipt, absl::FunctionRef<bool(const EpochIdentity&)> may_show) const;
  // The progress of an epoch, which need not exist. FAILED_PRECONDITION if it exists with another
  // identity. With the share that `worker` would have if it joined now, unless it is null; then
  // also errors as ForecastJoin() and RESOURCE_EXHAUSTED. O(batches) if nobody loads the epoch.
  absl::StatusOr<EpochProgress> ProgressOf(const EpochIdentity& identity,
                                           const JoinRequest* worker = nullptr);
  // By number, the highest first.
  std::vector<EpochSummary> Epochs() const;
  // With at most `max_epochs` of them. NOT_FOUND if it has none.
  absl::StatusOr<JobSummary> Summary(size_t max_epochs) const;
  // By epoch and number. O(sessions and their batches in flight).
  std::vector<SessionSummary> Sessions() const;
  // Adds the job's figures to it, except the number of epochs.
  void AddTo(DeliverySnapshot& snapshot) const;
  // The epochs that somebody loads, by number, with who works on them.
  std::vector<EpochWatch> Watch() const;
  // A copy of the present ledger that shares what does not change. O(epochs).
  JobLedger ForkLedger();
  // Whether nothing is left of the job, and nothing is under way.
  bool IsForgotten() const;
  // Whether the log has, or may have, a record.
  bool HasRecords() const;
  // The last generation that was drawn; 0: none.
  uint64_t last_generation() const;
  // Replaces the log by a shorter one that says the same; if the log refuses, or there is no
  // memory, it stays as it was. Blocks.
  void Compact();

 private:
  // Queues an operation and returns when it has been answered.
  absl::Status Perform(const std::shared_ptr<JobOperation>& operation);
  // Commits the queued operations. The caller has set `committing_`; this unsets it.
  void CommitQueued();
  void CommitIfNobodyDoes();
  // Waits for joins that are expected to follow, as JobEnvironment::gather_joins says.
  void GatherJoins() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PlanAll(const std::vector<std::shared_ptr<JobOperation>>& operations,
               PendingChanges& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes CommitIfNobodyDoes() run soon on another thread, or here if there is no memory for that.
  void CallCommitter() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes Compact() run soon.
  void CallCompaction() ABSL_LOCKS_EXCLUDED(mutex_);
  void RunAll(const Wakes& wakes) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<Offer> NextOrLose(Session& session, absl::Time now, Wakes& wakes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // More, or fewer, of a session's batches are being acknowledged. For watching only: it does
  // nothing if the session is gone.
  void NoteAcknowledging(uint64_t epoch, SessionId session, size_t more, size_t fewer)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // For an epoch with windows.
  static absl::Status CompleteOffer(Session& session, const EpochState& state, OpenEpoch& epoch,
                                    Offer& offer);
  // True if the caller must call CallCommitter().
  bool NeedsCommitter() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EpochKey KeyOf(uint64_t epoch) const { return {name_, epoch}; }

  const std::string name_;
  const JobEnvironment& environment_;
  const std::shared_ptr<RecordLog> log_;
  std::atomic<SessionId> next_session_;
  EarlyEnd early_end_;
  NextEpoch next_;

  mutable absl::Mutex mutex_;
  // Only the committing thread replaces its ledger.
  JobState state_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::shared_ptr<JobOperation>> queue_ ABSL_GUARDED_BY(mutex_);
  // The changes that are being committed were planned against `state_`, so no epoch leaves memory
  // meanwhile.
  bool committing_ ABSL_GUARDED_BY(mutex_) = false;
  bool committer_called_ ABSL_GUARDED_BY(mutex_) = false;
  // Of the log; approximate.
  size_t num_records_ ABSL_GUARDED_BY(mutex_);
  bool compaction_called_ ABSL_GUARDED_BY(mutex_) = false;
  bool was_idle_ ABSL_GUARDED_BY(mutex_) = false;  // Since the last Rest().
  JoinBurst burst_ ABSL_GUARDED_BY(mutex_);
};

// Job::OpenedWithPlan() of a ledger that no job has.
std::optional<Job::Opened> OpenedWithPlanIn(const JobLedger& ledger, absl::string_view receipt,
                                            absl::FunctionRef<bool(const EpochIdentity&)> may_show);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_H_
