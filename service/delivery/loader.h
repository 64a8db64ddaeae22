// All jobs of a server: which epochs they load, who loads them, and what is done.
//
// Start here: Loader is what the rpc room knows. Flow of a worker's stream: Load() gives a
// LoadSession; its Next() gives batches until it says that there is nothing now, or nothing any
// more; Acknowledge() makes batches done, durably; destroying the session gives back what it has
// not acknowledged.
#ifndef PACKHOUSE_SERVICE_DELIVERY_LOADER_H_
#define PACKHOUSE_SERVICE_DELIVERY_LOADER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/datasets/record_log.h"
#include "service/delivery/delivery_snapshot.h"
#include "service/delivery/epoch_catalog.h"
#include "service/delivery/epoch_delivery.h"
#include "service/delivery/epoch_plan.h"
#include "service/delivery/epoch_request.h"
#include "service/delivery/evaluation.h"
#include "service/delivery/job_ledger.h"
#include "service/delivery/lease_table.h"
#include "service/delivery/load_event.h"

namespace packhouse {

struct LoaderOptions {
  // Dynamic workers that are silent for so long give their batches back.
  absl::Duration lease_duration = absl::Minutes(5);
  // Epochs that are remembered: begun and not finished, or among a job's latest.
  size_t max_epochs = 4096;
  // So many finished epochs of a job are remembered, for acknowledgements that come late.
  size_t kept_finished_epochs = 8;
  // The log is rewritten without what is out of date when it has so many records.
  size_t max_log_records = 65536;
};

// What a worker learns when it comes.
struct LoadStart {
  JoinResult join;
  SessionId session = 0;
  EpochProgress progress;
  // Of this worker in this generation, and how many of them are done.
  uint64_t num_steps = 0;
  uint64_t num_steps_done = 0;
};

class Loader;

// One stream of one worker. Thread-compatible; the loader must outlive it.
class LoadSession {
 public:
  ~LoadSession();
  LoadSession(const LoadSession&) = delete;
  LoadSession& operator=(const LoadSession&) = delete;

  const LoadStart& start() const { return start_; }
  const PreparedEpoch& epoch() const { return *epoch_; }

  // NOT_FOUND if the job was deleted; FAILED_PRECONDITION if the session has no part in the epoch
  // any more; DATA_LOSS as PreparedEpoch::Build.
  absl::StatusOr<LoadEvent> Next(absl::Time now);

  // Whether Next() would wait now for somebody who has something to write to the log. A guess: it
  // may have changed by then.
  bool MayBlock() const;

 private:
  friend class Loader;

  LoadSession(Loader* loader, std::shared_ptr<const PreparedEpoch> epoch, const JoinRequest& join,
              size_t max_in_flight, std::function<void()> wake)
      : loader_(loader),
        epoch_(std::move(epoch)),
        lane_(join.lane),
        worker_(join.worker),
        ends_when_all_leased_(join.ends_when_all_leased),
        max_in_flight_(max_in_flight),
        wake_(std::move(wake)) {}

  Loader* const loader_;
  const std::shared_ptr<const PreparedEpoch> epoch_;
  const uint32_t lane_;
  const std::string worker_;
  const bool ends_when_all_leased_;
  const size_t max_in_flight_;
  const std::function<void()> wake_;
  LoadStart start_;
  bool waiting_ = false;  // Guarded by the loader's mutex.
  // It has said that it ends while others work: so does whoever has its batches.
  bool ended_ = false;
};

// Thread-safe. Calls that change what is durable wait for the log; other calls do not wait for
// them, but for those that start a generation.
class Loader {
 public:
  // Reads the log. The pointees must outlive the loader; the log must be thread-safe. Session ids
  // count from `first_session`, above those of earlier runs. DATA_LOSS as JobLedger::Replay.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(EpochCatalog* catalog, RecordLog* log,
                                                      const LoaderOptions& options,
                                                      SessionId first_session);

  // What an epoch is like and how far it is; opens nothing. Errors as EpochCatalog::Prepare,
  // FAILED_PRECONDITION as EpochDelivery::Open.
  struct Description {
    std::shared_ptr<const PreparedEpoch> epoch;
    EpochProgress progress;
  };
  // `given_up` as for EpochCatalog::Prepare.
  absl::StatusOr<Description> Describe(EpochRequest request,
                                       const std::function<bool()>& given_up = nullptr);

  // Joins an epoch. `join` as EpochDelivery::Join, without a session, which is chosen here. `wake`
  // is called when Next() of the session has said kWait and may have more now; it must not block,
  // may be called by any thread, and, once more, after the session has gone. At most
  // `max_in_flight` batches, at least 1, are leased to it.
  //
  // Errors as EpochCatalog::Prepare, which asks `given_up`, and EpochDelivery::Join;
  // RESOURCE_EXHAUSTED for max_epochs.
  absl::StatusOr<std::unique_ptr<LoadSession>> Load(
      EpochRequest request, JoinRequest join, size_t max_in_flight, std::function<void()> wake,
      const std::function<bool()>& given_up = nullptr);

  // One pass over an epoch of which nothing is kept; the request's job may be empty. Errors as
  // EpochCatalog::Prepare, which asks `given_up`, and Evaluation::Open.
  absl::StatusOr<std::unique_ptr<Evaluation>> Evaluate(
      const EpochRequest& request, EvaluationRequest evaluation,
      const std::function<bool()>& given_up = nullptr);

  // As EpochDelivery; NOT_FOUND if there is no such epoch. Acknowledgements that come at the same
  // time share a commit of the log.
  absl::StatusOr<AcknowledgeResult> Acknowledge(const EpochKey& key, SessionId session,
                                                uint64_t generation,
                                                absl::Span<const uint64_t> batches, absl::Time now);
  absl::StatusOr<std::string> CursorAtStep(const EpochKey& key, uint64_t generation,
                                           uint64_t steps);

  // Forgets all epochs of a job. NOT_FOUND if there are none.
  absl::Status DeleteJob(const std::string& job);

  // Gives back leases that have expired. When the next one does: InfiniteFuture if there is none.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // For metrics. O(open epochs) and the runs of batches of those that are loaded.
  DeliverySnapshot Snapshot() const;

 private:
  friend class LoadSession;

  struct OpenEpoch {
    std::unique_ptr<EpochDelivery> delivery;
    std::map<SessionId, LoadSession*> sessions;
  };
  using Wakes = std::vector<std::function<void()>>;

  Loader(EpochCatalog* catalog, RecordLog* log, const LoaderOptions& options, JobLedger ledger,
         size_t num_records, SessionId first_session)
      : catalog_(catalog),
        log_(log),
        options_(options),
        ledger_(std::move(ledger)),
        next_session_(first_session),
        num_records_(num_records) {}

  // Ranks that rounds are planned for stay as they were when the epoch was first opened.
  void AdoptPlannedRanks(const std::optional<Cursor>& cursor, EpochRequest& request) const;
  // An epoch that the ledger has; NOT_FOUND.
  absl::StatusOr<OpenEpoch*> Find(const EpochKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<OpenEpoch*> FindOrOpen(const EpochIdentity& identity)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  EpochProgress ProgressOf(const EpochKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ForgetFinished(const EpochKey& opened, Wakes& wakes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Forget(absl::Span<const EpochKey> keys, Wakes& wakes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of an epoch that the ledger does not have any more.
  void Close(const EpochKey& key, Wakes& wakes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Once it is in the log.
  absl::StatusOr<AcknowledgeResult> FinishAcknowledge(const EpochKey& key, SessionId session,
                                                      uint64_t generation,
                                                      absl::Span<const uint64_t> batches,
                                                      absl::Time now, Wakes& wakes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of the sessions that wait, to be called without the lock.
  static void WakeWaiting(const OpenEpoch& epoch, Wakes& wakes);
  // Counts in num_writing_locked_ while it lives.
  class WritingLocked;
  void CompactIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayAppend() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !compaction_due_; }

  EpochCatalog* const catalog_;
  RecordLog* const log_;
  const LoaderOptions options_;

  // How many hold mutex_ while they wait for the log.
  std::atomic<int> num_writing_locked_ = 0;

  mutable absl::Mutex mutex_;
  JobLedger ledger_ ABSL_GUARDED_BY(mutex_);
  std::map<EpochKey, OpenEpoch> epochs_ ABSL_GUARDED_BY(mutex_);
  SessionId next_session_ ABSL_GUARDED_BY(mutex_);
  LeaseCounters closed_ ABSL_GUARDED_BY(mutex_);  // Of epochs that are not open any more.
  uint64_t num_generations_ ABSL_GUARDED_BY(mutex_) = 0;
  // Records in the log, about.
  size_t num_records_ ABSL_GUARDED_BY(mutex_);
  // Acknowledgements on their way to the log, which a snapshot would lack; none sets out while a
  // compaction is due.
  size_t num_appending_ ABSL_GUARDED_BY(mutex_) = 0;
  bool compaction_due_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_LOADER_H_
