// All jobs of a server: which epochs they load, who loads them, and what is done.
//
// Start here: Loader is what the rpc room knows. Flow of a worker's stream: Load() gives a
// LoadSession; its Next() gives batches until it says that there is nothing now, or nothing any
// more; Acknowledge() makes batches done, durably; destroying the session gives back what it has
// not acknowledged.
//
// Locks. A job has its own mutex (job.h), the map of jobs has another, which is taken before a
// job's, both for moments only: neither is held while the disk is waited for. So Next(), Expire()
// and what else only looks at leases wait for nobody who waits for the disk.
#ifndef PACKHOUSE_SERVICE_DELIVERY_LOADER_H_
#define PACKHOUSE_SERVICE_DELIVERY_LOADER_H_

#include <atomic>
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
#include "service/delivery/delivery_snapshot.h"
#include "service/delivery/epoch_quota.h"
#include "service/delivery/evaluation.h"
#include "service/delivery/job.h"
#include "service/delivery/joining.h"
#include "service/delivery/ledger_writer.h"
#include "service/delivery/load_event.h"
#include "service/epochs/epoch_catalog.h"
#include "service/epochs/epoch_request.h"
#include "service/epochs/given_up.h"
#include "service/epochs/prepared_epoch.h"
#include "service/ledger/job_ledger.h"
#include "service/ledger/record_log.h"

namespace packhouse {

// A job, for people.
struct JobSummary {
  std::string name;
  // The highest number first; not all of them if there are many.
  std::vector<EpochSummary> epochs;
  uint64_t num_epochs = 0;
  uint64_t num_sessions = 0;
  uint64_t used_seconds = 0;  // The latest of its epochs.
};

struct JobList {
  std::vector<JobSummary> jobs;
  std::string next_page_token;  // Empty: that is all.
};

struct LoaderOptions {
  // Dynamic workers that are silent for so long give their batches back.
  absl::Duration lease_duration = absl::Minutes(5);
  // How long workers that come together wait for each other (job.h); zero: not at all.
  absl::Duration gather_joins = absl::ZeroDuration();
  // Epochs that are remembered: begun and not finished, or among a job's latest.
  size_t max_epochs = 4096;
  // Of these, those that one client has opened.
  size_t max_epochs_per_client = 1024;
  // Epochs that nobody has used for so long are forgotten (ForgetUnused()).
  absl::Duration epoch_retention = absl::Hours(24 * 30);
  // So many finished epochs of a job are remembered, for acknowledgements that come late.
  size_t kept_finished_epochs = 8;
  // The log is rewritten without what is out of date when it has so many records.
  size_t max_log_records = 65536;
};

class Loader;

// One stream of one worker. Thread-compatible; the loader must outlive it.
class LoadSession {
 public:
  // Gives back what was not acknowledged.
  ~LoadSession();
  LoadSession(const LoadSession&) = delete;
  LoadSession& operator=(const LoadSession&) = delete;

  // Whether the worker has joined; false: not yet, and the session is woken when that is known. Or
  // why it has not. start() is there once it has; Next() says kWait until then.
  absl::StatusOr<bool> HasJoined();

  const LoadStart& start() const { return start_; }
  const PreparedEpoch& epoch() const { return *epoch_; }

  // As HasJoined(); NOT_FOUND if the job was deleted; FAILED_PRECONDITION if the session has no
  // part in the epoch any more; DATA_LOSS as PreparedEpoch::Build. Never waits for the disk, nor
  // for who does.
  absl::StatusOr<LoadEvent> Next(absl::Time now);

  // Whether Next() would say kWait, or HasJoined() false.
  bool WouldWait() const { return job_->WouldWait(*seat_); }

 private:
  friend class Loader;

  LoadSession(std::shared_ptr<Job> job, std::shared_ptr<Job::Session> seat,
              std::shared_ptr<const PreparedEpoch> epoch)
      : job_(std::move(job)), seat_(std::move(seat)), epoch_(std::move(epoch)) {}

  const std::shared_ptr<Job> job_;
  const std::shared_ptr<Job::Session> seat_;
  const std::shared_ptr<const PreparedEpoch> epoch_;
  LoadStart start_;
  bool has_joined_ = false;
};

// Thread-safe. Calls that change what is durable wait for the log; other calls do not wait for
// them.
class Loader {
 public:
  // Reads the log. The pointees must outlive the loader; the log must be thread-safe. Session ids
  // count from `first_session`, above those of earlier runs. DATA_LOSS as JobLedger::Replay.
  // What jobs take in memory, names, epochs, acknowledgements and leases, is held of `memory` if it
  // is not null.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(EpochCatalog* catalog, RecordLog* log,
                                                      const LoaderOptions& options,
                                                      SessionId first_session,
                                                      MemoryBudget* memory = nullptr);

  // Waits for what runs in the background. All that it gave must have gone.
  ~Loader();

  // Who does what no caller waits for: joins are committed, the log is compacted, epochs are let go
  // of. Such work waits for the disk. Until this is called it is done at once by whoever causes it.
  // Not thread-safe: to be called before everything else. What it is given must run before the
  // loader can go.
  void RunInBackground(Executor executor) { background_ = std::move(executor); }

  // What an epoch is like and how far it is; opens nothing. Errors as EpochCatalog::Prepare,
  // FAILED_PRECONDITION for an epoch that was opened in other words.
  struct Description {
    std::shared_ptr<const PreparedEpoch> epoch;
    EpochProgress progress;
  };
  // `given_up` as for EpochCatalog::Prepare.
  absl::StatusOr<Description> Describe(EpochRequest request, const GivenUp& given_up = {});

  // Joins an epoch, as PlanJoin() says. The join is committed later, with others: the session's
  // HasJoined() tells, and its errors, which are those of Job::StartJoin(), come there. `wake`
  // is called when the session has said to wait and may have more now; it must not block,
  // may be called by any thread, and, once more, after the session has gone. At most
  // `max_in_flight` batches, at least 1, are leased to it.
  //
  // Errors as EpochCatalog::Prepare, which asks `given_up`.
  absl::StatusOr<std::unique_ptr<LoadSession>> StartLoad(EpochRequest request, JoinRequest join,
                                                         size_t max_in_flight,
                                                         std::function<void()> wake,
                                                         const GivenUp& given_up = {});
  // The same, and waits until it has joined, or says why it has not.
  absl::StatusOr<std::unique_ptr<LoadSession>> Load(EpochRequest request, JoinRequest join,
                                                    size_t max_in_flight,
                                                    std::function<void()> wake,
                                                    const GivenUp& given_up = {});

  // One pass over an epoch of which nothing is kept; the request's job may be empty. Errors as
  // EpochCatalog::Prepare, which asks `given_up`, and Evaluation::Open.
  absl::StatusOr<std::unique_ptr<Evaluation>> Evaluate(const EpochRequest& request,
                                                       EvaluationRequest evaluation,
                                                       const GivenUp& given_up = {});

  // As Job; NOT_FOUND if there is no such epoch. Acknowledgements of a job that come at the same
  // time share a commit of the log, and so do those of several jobs if the log lets them.
  absl::StatusOr<AcknowledgeResult> Acknowledge(const EpochKey& key, SessionId session,
                                                uint64_t generation,
                                                absl::Span<const uint64_t> batches, absl::Time now);
  absl::StatusOr<std::string> CursorAtStep(const EpochKey& key, uint64_t generation,
                                           uint64_t steps);

  // Jobs that have epochs, by name. A page may be shorter than asked for, and is not the last
  // unless it says so. At most kMaxPageSize jobs a page (0: 100), and kMaxListedEpochs epochs a
  // job.
  static constexpr size_t kMaxPageSize = 1000;
  static constexpr size_t kMaxListedEpochs = 100;
  JobList ListJobs(size_t page_size, const std::string& page_token) const;
  // With at most kMaxShownEpochs epochs. NOT_FOUND if it has none.
  static constexpr size_t kMaxShownEpochs = 10'000;
  absl::StatusOr<JobSummary> GetJob(const std::string& job) const;

  // Forgets all epochs of a job. NOT_FOUND if there are none.
  absl::Status DeleteJob(const std::string& job);

  // Forgets the epochs that nobody has used for as long as the options say; returns how many. The
  // first error ends it. Waits for the disk. Frees the memory of epochs that nobody loads
  // (Job::Rest).
  absl::StatusOr<size_t> ForgetUnused(absl::Time now);
  absl::Duration epoch_retention() const { return options_.epoch_retention; }

  // Gives back leases that have expired. When the next one does: InfiniteFuture if there is none.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // That have epochs, or are being loaded.
  size_t num_jobs() const;

  // For metrics. O(open epochs) and the runs of batches of those that are loaded.
  DeliverySnapshot Snapshot() const;

 private:
  friend class LoadSession;

  // A job is there as long as it is pinned or has something in the ledger.
  struct Entry {
    std::shared_ptr<Job> job;
    size_t num_pins = 0;
  };

  Loader(EpochCatalog* catalog, RecordLog* log, const LoaderOptions& options, JobLedger ledger,
         size_t num_records, SessionId first_session, MemoryBudget* memory);

  // Pins a job until what is returned goes, which must not be under a job's mutex. Null if there is
  // none.
  std::shared_ptr<Job> Find(const std::string& name);
  std::shared_ptr<Job> FindOrCreate(const std::string& name);
  std::shared_ptr<Job> Pin(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unpin(Job& job);
  std::vector<std::shared_ptr<Job>> Jobs() const;

  // Whoever holds the epoch last lets go of it in the background: the last reader of a data set
  // that was deleted erases it from the disk.
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      const EpochRequest& request, const GivenUp& given_up,
      const std::optional<KeptPlannerResult>& kept = std::nullopt);
  // What stays as it was when the epoch was first opened: the ranks that rounds are planned for,
  // which become the request's, and the plan. Nothing if none is kept for this request.
  std::optional<KeptPlannerResult> Adopt(const std::optional<Cursor>& cursor,
                                         EpochRequest& request);
  void InBackground(std::function<void()> work);
  void CompactIfDue();

  EpochCatalog* const catalog_;
  const LoaderOptions options_;
  LedgerWriter writer_;
  EpochQuota quota_;
  Job::Environment environment_;
  Executor background_ = [](const std::function<void()>& work) { work(); };
  std::atomic<SessionId> next_session_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  DeliverySnapshot gone_ ABSL_GUARDED_BY(mutex_);  // Totals of jobs that are not there any more.

  absl::Mutex background_mutex_;
  size_t num_in_background_ ABSL_GUARDED_BY(background_mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_LOADER_H_
