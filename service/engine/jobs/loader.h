// All jobs of a server: the epochs that they load, the workers that load them, and the batches that
// are done.
//
// Start here: Loader is the class that the services use. Flow of a worker's stream: Load() gives a
// LoadSession. Its Next() gives batches until there are none now, or no more at all. Acknowledge()
// makes batches done, durably. Destroying the session gives back the batches that it has not
// acknowledged.
//
// Locks. A job has its own mutex (job.h). The map of jobs has another, which is taken before a
// job's. Both are held only for moments, and never while waiting for the disk. So Next(), Expire()
// and other calls that only use leases never wait for a call that waits for the disk.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LOADER_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LOADER_H_

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
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/access/client_identity.h"
#include "service/base/limited_log.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/given_up.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/epoch_quota.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/engine/jobs/evaluation.h"
#include "service/engine/jobs/gathering_places.h"
#include "service/engine/jobs/job.h"
#include "service/engine/jobs/job_ledger.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/ledger_writer.h"
#include "service/engine/jobs/load_event.h"
#include "service/engine/jobs/measured_limits.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// A job, for people.
struct JobSummary {
  std::string name;
  // The highest number first; not all of them if there are many.
  std::vector<EpochSummary> epochs;
  uint64_t num_epochs = 0;
  uint64_t num_sessions = 0;
  uint64_t used_seconds = 0;  // That of its latest epoch.
};

struct JobList {
  std::vector<JobSummary> jobs;
  std::string next_page_token;  // Empty: there are no more.
};

struct LoaderOptions {
  // Dynamic workers that are silent for this long lose their batches.
  absl::Duration lease_duration = absl::Minutes(5);
  // How long workers that come together wait for the next one (job_state.h); zero: not at all.
  absl::Duration gather_joins = absl::ZeroDuration();
  // How many threads may wait so at the same time, of all loaders that share it. Null: the loader
  // has LedgerWriter::kOwnPlaces.
  std::shared_ptr<GatheringPlaces> gathering = nullptr;
  // The most remembered epochs: begun and not finished, or among a job's latest.
  size_t max_epochs = 4096;
  // The most of these that one client has opened.
  size_t max_epochs_per_client = 1024;
  // Of namespaces; null: they have none.
  QuotasOf quotas_of = nullptr;
  // Where other loaders have epochs of the same namespaces, counts all of them; null: none do.
  std::shared_ptr<EpochsHere> epochs_here = nullptr;
  // Epochs that nobody has used for this long are forgotten (ForgetUnused()).
  absl::Duration epoch_retention = absl::Hours(24 * 30);
  // The number of finished epochs of a job that are remembered, for late acknowledgements.
  size_t kept_finished_epochs = 8;
  // When the log has this many records, it is rewritten without outdated ones.
  size_t max_log_records = 65536;
  // Is told why limits of adaptive jobs move, or stay. May be null; must outlive the loader.
  LimitedLog* log = nullptr;
};

class Loader;

// One stream of one worker. Thread-compatible; the loader must outlive it.
class LoadSession {
 public:
  // Gives back batches that were not acknowledged.
  ~LoadSession();
  LoadSession(const LoadSession&) = delete;
  LoadSession& operator=(const LoadSession&) = delete;

  // Whether the worker has joined. If false, the session is woken when the join is answered. An
  // error is the reason why it could not join. start() is valid once it has joined; Next() gives
  // kWait until then.
  absl::StatusOr<bool> HasJoined();

  const LoadStart& start() const { return start_; }
  const LoadableEpoch& epoch() const { return *epoch_; }

  // As HasJoined(); NOT_FOUND if the job was deleted; FAILED_PRECONDITION if the session has no
  // part in the epoch any more; DATA_LOSS as PreparedEpoch::Build. Never waits for the disk, or for
  // a call that does.
  absl::StatusOr<LoadEvent> Next(absl::Time now);

  // Whether Next() would give kWait, or HasJoined() false.
  bool WouldWait() const { return job_->WouldWait(*seat_); }

 private:
  friend class Loader;

  // Plans a window of this opening of the epoch in the background, and tells the job. `is_first`:
  // as Loader::WindowOrder.
  using PlanWindow = std::function<void(uint64_t opening, uint64_t window, bool is_first)>;

  LoadSession(std::shared_ptr<Job> job, std::shared_ptr<Job::Session> seat,
              std::shared_ptr<const LoadableEpoch> epoch, PlanWindow plan)
      : job_(std::move(job)),
        seat_(std::move(seat)),
        epoch_(std::move(epoch)),
        plan_(std::move(plan)) {}

  // Next() of an epoch with windows, for a session that has joined.
  absl::StatusOr<LoadEvent> NextOfWindows(absl::Time now);
  // The same of an epoch in segments.
  absl::StatusOr<LoadEvent> NextOfSegments(absl::Time now);

  const std::shared_ptr<Job> job_;
  const std::shared_ptr<Job::Session> seat_;
  const std::shared_ptr<const LoadableEpoch> epoch_;
  const PlanWindow plan_;
  // A leased batch whose window, or segment, is being planned.
  std::optional<Offer> pending_;
  SegmentedEpoch::Pins pins_;
  bool has_had_batch_ = false;  // Only known of epochs with windows.
  // As MeasuredLimits::Fix(), until the epoch is in the ledger.
  std::shared_ptr<const MeasuredLimits::Measured> measured_;
  LoadStart start_;
  bool has_joined_ = false;
};

// Thread-safe. Calls that make changes durable wait for the log; other calls do not wait for them.
class Loader {
 public:
  // Reads the log. The pointees must outlive the loader; the log must be thread-safe. Session ids
  // count from `first_session`, above those of earlier runs. DATA_LOSS as JobLedger::Replay. The
  // memory of jobs (names, epochs, acknowledgements, leases) is held from `memory` if it is not
  // null. Generations up to `former_generations` are of before what the log lies in was restored
  // from a backup: each epoch that has one gets another, so that workers of before are refused.
  static absl::StatusOr<std::unique_ptr<Loader>> Open(EpochCatalog* catalog, RecordLog* log,
                                                      const LoaderOptions& options,
                                                      SessionId first_session,
                                                      MemoryBudget* memory = nullptr,
                                                      uint64_t former_generations = 0);

  // Waits for background work. Everything that it gave must have been destroyed.
  ~Loader();

  // Sets the executor for work that no caller waits for: committing joins, compacting the log,
  // letting go of epochs. Such work waits for the disk. Without an executor the calling thread does
  // it at once. Not thread-safe: call it before everything else. The executor must run all work
  // before the loader is destroyed.
  void RunInBackground(Executor executor) { background_ = std::move(executor); }

  // The same for plans of windows, which take seconds. `work` asks `given_up` now and then. By
  // default the calling thread plans at once.
  enum class WindowOrder {
    // A worker waits for it and has had no batch yet: the first window of an epoch, or the one with
    // which a worker goes on. It should be planned before those of kLater, whoever's they are.
    kFirst,
    // Batches of the window before it are still to be delivered, or were a moment ago.
    kLater,
  };
  using Planning = std::function<void(const std::function<bool()>& given_up)>;
  using PlanExecutor =
      std::function<void(const ClientId& client, WindowOrder order, Planning work)>;
  void PlanInBackground(PlanExecutor executor) { plan_executor_ = std::move(executor); }

  // The figures of an epoch and its progress; opens nothing. Errors as EpochCatalog::Prepare;
  // FAILED_PRECONDITION for an epoch that was opened with other words.
  struct Description {
    std::shared_ptr<const LoadableEpoch> epoch;
    EpochProgress progress;
  };
  // `given_up` as for EpochCatalog::Prepare.
  absl::StatusOr<Description> Describe(EpochRequest request, const GivenUp& given_up = {});

  // Joins an epoch, as PlanJoin() says. The join is committed later, with others; the session's
  // HasJoined() has the result, with the errors of Job::StartJoin(). `wake` is called when the
  // session has said to wait and may have more now. `wake` must not block. Any thread may call it,
  // and it may be called once more after the session has gone. At most `max_in_flight` batches, at
  // least 1, are leased to it.
  //
  // Errors as EpochCatalog::Prepare, which asks `given_up`.
  absl::StatusOr<std::unique_ptr<LoadSession>> StartLoad(EpochRequest request, JoinRequest join,
                                                         size_t max_in_flight,
                                                         std::function<void()> wake,
                                                         const GivenUp& given_up = {});
  // The same, and waits until the worker has joined. An error is the reason why it has not.
  absl::StatusOr<std::unique_ptr<LoadSession>> Load(EpochRequest request, JoinRequest join,
                                                    size_t max_in_flight,
                                                    std::function<void()> wake,
                                                    const GivenUp& given_up = {});

  // One pass over an epoch, of which the service keeps nothing; the request's job may be empty.
  // Errors as EpochCatalog::Prepare, which asks `given_up`, and Evaluation::Open. `client` and
  // `wake` are of an epoch in segments: who waits for them, and what is called when Next() of the
  // evaluation has said to wait and may have more. `wake` must not block. Any thread may call it,
  // also when the evaluation is gone.
  absl::StatusOr<std::unique_ptr<Evaluation>> Evaluate(const EpochRequest& request,
                                                       EvaluationRequest evaluation,
                                                       const ClientId& client = {},
                                                       std::function<void()> wake = nullptr,
                                                       const GivenUp& given_up = {});

  // An epoch itself, with what a planner found before (EpochCatalog::Prepare). The last reference
  // to it is dropped in the background: the last reader of a deleted data set erases it from the
  // disk.
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      const EpochRequest& request, const GivenUp& given_up,
      const std::optional<KeptPlannerResult>& kept = std::nullopt);

  // What the ledger has of an epoch, or of the job's nearest one that it remembers (Job). NOT_FOUND
  // if it remembers none of the job.
  absl::StatusOr<Job::Opened> OpenedNear(const EpochKey& key);
  // What it has of an epoch that may be shown and whose kept plan has this receipt; and the plan.
  // NOT_FOUND naming the receipt if there is none; DATA_LOSS and RESOURCE_EXHAUSTED of the plan.
  struct Planned {
    Job::Opened opened;
    std::shared_ptr<const PlannerResult> plan;
  };
  absl::StatusOr<Planned> FindPlan(absl::string_view receipt,
                                   absl::FunctionRef<bool(const EpochIdentity&)> may_show);
  // An epoch whose batches are made again (RebuildSource), with the plan that `opened` has. Errors
  // as EpochCatalog::Prepare. FAILED_PRECONDITION naming the first difference, if `opened` is of
  // the same epoch, and the epoch that can be made of the request is another one; and for another
  // epoch of an adaptive job, whose limits nobody knows.
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Rebuild(EpochRequest request,
                                                               const Job::Opened& opened,
                                                               const GivenUp& given_up);

  // As Job; NOT_FOUND if there is no such epoch. Acknowledgements of a job that come at the same
  // time share a commit of the log. So do those of several jobs, if the log allows it.
  absl::StatusOr<AcknowledgeResult> Acknowledge(const EpochKey& key, SessionId session,
                                                uint64_t generation,
                                                absl::Span<const uint64_t> batches, absl::Time now);
  absl::StatusOr<std::string> CursorAtStep(const EpochKey& key, uint64_t generation,
                                           uint64_t steps);

  // Jobs that have epochs, by name. A page may be shorter than asked for, and is the last only if
  // its token is empty. At most kMaxPageSize jobs in a page (0: 100), and kMaxListedEpochs epochs
  // of each job.
  static constexpr size_t kMaxPageSize = 1000;
  static constexpr size_t kMaxListedEpochs = 100;
  JobList ListJobs(size_t page_size, const std::string& page_token) const;
  // With at most kMaxShownEpochs epochs. NOT_FOUND if it has none.
  static constexpr size_t kMaxShownEpochs = 10'000;
  absl::StatusOr<JobSummary> GetJob(const std::string& job) const;

  // The epochs of a job that somebody loads now, by number, with who works on them; none if there
  // is no such job. Waits for the job's mutex, for moments.
  std::vector<EpochWatch> WatchJob(const std::string& job) const;

  // Forgets all epochs of a job. NOT_FOUND if there are none.
  absl::Status DeleteJob(const std::string& job);

  // Forgets epochs that nobody has used for as long as the options say; returns how many. Stops at
  // the first error. Waits for the disk. Frees the memory of epochs that nobody loads (Job::Rest).
  absl::StatusOr<size_t> ForgetUnused(absl::Time now);
  absl::Duration epoch_retention() const { return options_.epoch_retention; }

  // Gives back expired leases; the time at which the next one expires, InfiniteFuture if there is
  // none.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // Jobs that have epochs, or are being loaded.
  size_t num_jobs() const;

  // Remembered epochs of all namespaces that have any.
  std::map<std::string, uint64_t> EpochsByNamespace() const { return quota_.CountByNamespace(); }

  // The workers that load epochs now, by job and session. O(sessions and their batches in flight).
  std::vector<SessionSummary> Sessions() const;

  // For metrics. O(open epochs) and the runs of batches of those that are loaded.
  DeliverySnapshot Snapshot() const;

 private:
  friend class LoadSession;

  // A job stays as long as it is pinned or has something in the ledger.
  struct Entry {
    std::shared_ptr<Job> job;
    size_t num_pins = 0;
  };

  Loader(EpochCatalog* catalog, RecordLog* log, const LoaderOptions& options, JobLedger ledger,
         size_t num_records, SessionId first_session, MemoryBudget* memory,
         uint64_t former_generations);

  // Pins a job until the result is destroyed, which must not happen under a job's mutex. Null if
  // there is none.
  std::shared_ptr<Job> Find(const std::string& name);
  std::shared_ptr<Job> FindOrCreate(const std::string& name);
  std::shared_ptr<Job> Pin(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unpin(Job& job);
  std::vector<std::shared_ptr<Job>> Jobs() const;

  // The last reference to the epoch is dropped in the background: the last reader of a deleted data
  // set erases it from the disk.
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> PrepareAny(
      const EpochRequest& request, const ClientId& client, const GivenUp& given_up,
      const std::optional<KeptPlannerResult>& kept);
  // Runs `work` by the plan executor.
  void PlanSoon(const ClientId& client, WindowOrder order, Planning work);
  // Plans the first window of a new epoch, and waits for it. CANCELLED if the call is given up.
  absl::Status PlanFirstWindow(const ClientId& client, std::shared_ptr<const SampledEpoch> epoch,
                               const GivenUp& given_up);
  // Plans a window for an opening of an epoch of a job, or makes a segment of it. Is given up when
  // the job forgets the epoch.
  void PlanWindow(std::shared_ptr<Job> job, const EpochKey& key, uint64_t opening,
                  std::shared_ptr<const LoadableEpoch> epoch, uint64_t window, WindowOrder order,
                  const ClientId& client);
  // Makes a segment for an evaluation, unless it is being made for another.
  void MakeSegmentSoon(std::shared_ptr<const SegmentedEpoch> epoch, uint32_t segment,
                       const ClientId& client, SegmentMakings::Waiter waiter);
  // As MeasuredLimits::Fix().
  std::shared_ptr<const MeasuredLimits::Measured> FixMeasured(EpochRequest& request);
  // What stays as it was when the epoch was first opened. The ranks that rounds are planned for
  // become the request's. Returns the plan; nullopt if none is kept for this request.
  std::optional<KeptPlannerResult> Adopt(const std::optional<Cursor>& cursor,
                                         EpochRequest& request);
  std::optional<KeptPlannerResult> Adopt(const Job::Opened& opened, EpochRequest& request) const;
  // One more piece of work in the background, as long as the result lives: so it no longer counts
  // when it is done, and also if an executor has no memory for it.
  std::shared_ptr<Loader> CountInBackground();
  void InBackground(std::function<void()> work);
  void CompactIfDue();

  EpochCatalog* const catalog_;
  const LoaderOptions options_;
  LedgerWriter writer_;
  EpochQuota quota_;
  Job::Environment environment_;
  MeasuredLimits measured_limits_;
  SegmentMakings segment_makings_;
  Executor background_ = [](const std::function<void()>& work) { work(); };
  PlanExecutor plan_executor_ = [](const ClientId& /*client*/, WindowOrder /*order*/,
                                   const Planning& work) { work([] { return false; }); };
  std::atomic<SessionId> next_session_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  DeliverySnapshot gone_ ABSL_GUARDED_BY(mutex_);  // Totals of jobs that are gone.

  absl::Mutex background_mutex_;
  size_t num_in_background_ ABSL_GUARDED_BY(background_mutex_) = 0;

  // Those of before a restore.
  const uint64_t former_generations_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LOADER_H_
