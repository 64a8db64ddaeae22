// The state of a job: its part of the ledger, and the epochs in memory that somebody loads.
//
// Who wakes whom: LeaseTable::TakeWoken() says which sessions may go on after a change to leases,
// and JobState::TellWoken() wakes them. A table that is retired wakes all waiting sessions
// (RetireTable()). A session that waits for its join is woken when the join is answered
// (join_operation.h).
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_STATE_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/access/client_identity.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/epoch_quota.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/engine/jobs/gathering_places.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/job_session.h"
#include "service/engine/jobs/kept_plan.h"
#include "service/engine/jobs/lease_table.h"
#include "service/engine/jobs/window_plans.h"

namespace packhouse {

// Runs work soon, on another thread or at once.
using Executor = std::function<void(std::function<void()>)>;

// As JobEnvironment::gather_joins.
inline constexpr int kLongestGathering = 5;

// What all jobs of a server share. The pointees outlive the jobs.
struct JobEnvironment {
  EpochQuota* quota = nullptr;
  // For the ledger's part and for loaded epochs. May be null.
  MemoryBudget* memory = nullptr;
  // For commits that no caller waits for.
  Executor executor;
  // Dynamic workers that are silent for this long lose their batches.
  absl::Duration lease_duration = absl::Minutes(5);
  // The number of finished epochs that are remembered, for late acknowledgements.
  size_t kept_finished_epochs = 8;
  // Joins that come soon after another one (join_burst.h) wait for others to share their commit: as
  // long as others keep coming within this time, or, if it is known how many workers come together,
  // until all of them are there; at most kLongestGathering times as long. A join that comes alone
  // does not wait, and acknowledgements do not wait either.
  absl::Duration gather_joins = absl::ZeroDuration();
  // How many threads may wait so at the same time. Null: none.
  GatheringPlaces* gathering = nullptr;
  // When a job's log has this many records, it is rewritten without outdated ones.
  size_t max_log_records = 65536;
  // Epochs that nobody has used for this long are forgotten.
  absl::Duration epoch_retention = absl::InfiniteDuration();
};

// The progress of an epoch of a job, for people.
struct EpochSummary {
  EpochProgress progress;
  std::string dataset;
  uint64_t num_sessions = 0;
  ClientId client;            // Empty: not known.
  uint64_t used_seconds = 0;  // Since the Unix epoch; 0: not known.
};

// The memory of an epoch that somebody loads: some bytes for each batch.
struct OpenEpoch {
  // The number of the current generation.
  uint64_t generation = 0;
  std::unique_ptr<LeaseTable> table;
  uint64_t table_bytes = 0;
  LeaseCounters earlier;  // Counters of earlier tables.
  // Sessions that have joined, in this generation or an earlier one, and have not left.
  std::map<SessionId, std::shared_ptr<JobSession>> sessions;
  // Dynamic: the sessions of workers that ended while others worked; some may have gone.
  std::map<std::string, SessionId> ended;
  WindowPlans windows;
  uint64_t used_seconds = 0;
};

// The sessions that must be told, once no mutex is held, that they may go on.
struct Wakes {
  // If there is no memory for it, all sessions are told.
  void Add(const std::function<void()>& wake);

  std::vector<std::function<void()>> each;
  bool all = false;
  // Epochs whose state was lost; their sessions are told, too.
  std::map<uint64_t, std::unique_ptr<OpenEpoch>> lost;
};

// Thread-compatible: the job's mutex guards it. Waits for nothing.
class JobState {
 public:
  // `ledger` has only epochs of this job. It may exceed the memory budget; later additions are
  // reserved.
  JobState(std::string name, JobLedger ledger, const JobEnvironment* environment);

  const std::string& name() const { return name_; }
  const JobEnvironment& environment() const { return environment_; }

  // A number above all that were drawn for the job, and above `named`, the generation of a cursor.
  // `named` is at most kMaxNamedGeneration, or was drawn.
  uint64_t DrawGeneration(uint64_t named) {
    last_drawn_ = std::max(last_generation(), named) + 1;
    return last_drawn_;
  }
  // The last generation of all that were drawn, durable or not.
  uint64_t last_generation() const { return std::max(last_drawn_, ledger_.last_generation()); }

  EpochKey KeyOf(uint64_t epoch) const { return {name_, epoch}; }

  const JobLedger& ledger() const { return ledger_; }
  // A copy that shares what does not change. O(epochs).
  JobLedger ForkLedger() { return ledger_.Fork(); }
  // Only the committing thread may call it.
  void ReplaceLedger(JobLedger& ledger) { std::swap(ledger_, ledger); }

  // Runs `change`. If there is no memory for it, returns false: then the epochs in memory are in an
  // unknown state, and are dropped. Nothing durable is lost: their sessions end with UNAVAILABLE,
  // and an epoch that is loaded again is made from the ledger.
  bool HasMemoryOrLoses(Wakes& wakes, absl::FunctionRef<void()> change);

  // Reserves memory for a new dealing. The dealing keeps it, since streams may use the dealing for
  // longer than the table lives.
  absl::StatusOr<MemoryHold> HoldDealing(const EpochIdentity& identity,
                                         const Sharing& sharing) const;
  // Reserves bytes of the memory budget before they are allocated. GiveBackUnused() gives back
  // bytes that are not needed; it must not be called while changes are planned against this state.
  absl::Status Reserve(uint64_t bytes);
  void GiveBackUnused();

  // Brings an epoch of the ledger into memory. O(batches) for the first time. NOT_FOUND or
  // FAILED_PRECONDITION as NoSuchEpoch(); RESOURCE_EXHAUSTED.
  absl::StatusOr<OpenEpoch*> Open(const EpochKey& key);
  // An epoch that was in memory when a change of it was planned. Throws std::bad_alloc if it has
  // been lost since (HasMemoryOrLoses()), while the change was made durable: then there is no
  // memory to apply the change to.
  OpenEpoch& At(uint64_t epoch);
  // Whether somebody loads it.
  bool IsLoaded(uint64_t epoch) const;
  // The epoch that a session has joined. FAILED_PRECONDITION or NOT_FOUND unless it may lease.
  absl::StatusOr<OpenEpoch*> EpochOf(const JobSession& session) const;
  const std::map<uint64_t, std::unique_ptr<OpenEpoch>>& open_epochs() const { return epochs_; }

  // Starts a generation in place of the previous one, all of whose sessions lose their part.
  // `table_bytes` have been reserved.
  void StartGeneration(uint64_t epoch, uint64_t generation, Dealing dealing, uint64_t table_bytes,
                       Wakes& wakes);
  // At most the bytes of a table.
  static uint64_t TableBytes(const EpochState& state);
  // What is done of an epoch has changed, and with it the bytes of its table, which have been
  // reserved. GiveBackUnused() leaves them from now on.
  void CountTable(const EpochKey& key);
  // A session leaves, as Job::Leave() says. False if it does not exist. Leaving must not fail for
  // lack of memory, so call it through HasMemoryOrLoses().
  bool Leave(JobSession& session, Wakes& wakes);
  // For an epoch that the ledger no longer has.
  void Close(const EpochKey& key, Wakes& wakes);
  // Frees the memory of an epoch, if nobody loads it and nothing of it is leased. Not during a
  // commit: its changes may have been planned against the epoch's table.
  void RestIfIdle(uint64_t epoch);
  // Must be called after each change to leases.
  void TellWoken(OpenEpoch& epoch, Wakes& wakes);

  // When an epoch was used last, in seconds since the Unix epoch; 0: not known.
  uint64_t UsedSeconds(const EpochState& state) const;
  // By number, the highest first.
  std::vector<EpochSummary> Summaries() const;
  // Adds the job's figures to it, except the number of epochs.
  void AddTo(DeliverySnapshot& snapshot) const;
  // The epochs that somebody loads, by number.
  std::vector<EpochWatch> Watch() const;

 private:
  // Epochs of a job mostly have one plan.
  static constexpr size_t kMostKnownSegments = 16;

  KeptSegments SegmentsOf(const EpochKey& key) const;
  static SessionWait WaitOf(const OpenEpoch& epoch, const JobSession& session);
  // The progress of an epoch that somebody loads.
  EpochProgress ProgressOf(uint64_t number, const OpenEpoch& epoch) const;

  // The rest of an epoch that stays in memory when nobody loads it.
  struct RestingEpoch {
    uint64_t generation = 0;
    BatchSet sent;  // Sent and not done.
    uint64_t used_seconds = 0;
  };

  void SetTable(OpenEpoch& epoch, std::unique_ptr<LeaseTable> table, uint64_t bytes);
  void RetireTable(OpenEpoch& epoch, Wakes& wakes);

  const std::string name_;
  const JobEnvironment& environment_;
  JobLedger ledger_;
  uint64_t last_drawn_ = 0;
  // By number.
  std::map<uint64_t, std::unique_ptr<OpenEpoch>> epochs_;
  std::map<uint64_t, RestingEpoch> resting_;
  LeaseCounters closed_;  // Of epochs that are not open any more.
  uint64_t num_generations_ = 0;
  // What SegmentsOf() has read, by the plan's digest.
  mutable std::map<std::string, KeptSegments> segments_;

  MemoryHold memory_;
  uint64_t open_bytes_ = 0;  // Of the tables of epochs_.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_STATE_H_
