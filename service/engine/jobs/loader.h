// Epochs that are loaded: by the workers of jobs, and for evaluations.
//
// Flow of a worker's stream: StartLoad() gives a LoadSession. Its Next() gives batches until there
// are none now, or no more at all. Job::Acknowledge() makes batches done, durably. Destroying the
// session gives back the batches that it has not acknowledged. Jobs (jobs.h) has the jobs.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LOADER_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LOADER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "service/access/client_identity.h"
#include "service/base/limited_log.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/cancellation.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "service/engine/epochs/segmented_epoch.h"
#include "service/engine/jobs/evaluation.h"
#include "service/engine/jobs/job.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/load_event.h"
#include "service/engine/jobs/measured_limits.h"
#include "service/engine/jobs/segment_makings.h"

namespace packhouse {

class Loader;

// One stream of one worker. Keeps the job. Thread-compatible; the loader must outlive it.
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

  // As Job::ListSharing().
  void ListSharing(std::shared_ptr<const std::atomic<bool>> shares_memory) {
    job_->ListSharing(*seat_, std::move(shares_memory));
  }

 private:
  friend class Loader;

  // Plans a window of this opening of the epoch in the background, and tells the job. `is_first`:
  // as Loader::WindowOrder.
  using PlanWindow = std::function<void(uint64_t opening, uint64_t window, bool is_first)>;

  LoadSession(std::shared_ptr<Job> job, std::shared_ptr<Job::Session> seat,
              std::shared_ptr<const LoadableEpoch> epoch,
              std::unique_ptr<const SharedBatches::Member> shared, PlanWindow plan)
      : job_(std::move(job)),
        seat_(std::move(seat)),
        epoch_(std::move(epoch)),
        shared_(std::move(shared)),
        plan_(std::move(plan)) {}

  // Next() of an epoch with windows, for a session that has joined.
  absl::StatusOr<LoadEvent> NextOfWindows(absl::Time now);
  // The same of an epoch in segments.
  absl::StatusOr<LoadEvent> NextOfSegments(absl::Time now);

  const std::shared_ptr<Job> job_;
  const std::shared_ptr<Job::Session> seat_;
  const std::shared_ptr<const LoadableEpoch> epoch_;
  // With the streams of other jobs that load the same.
  const std::unique_ptr<const SharedBatches::Member> shared_;
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

// Thread-safe.
class Loader {
 public:
  // The pointees must outlive the loader. `memory` holds plans; it may be null. `log` is told why
  // limits of adaptive jobs move, or stay; it may be null.
  explicit Loader(EpochCatalog* catalog, MemoryBudget* memory = nullptr, LimitedLog* log = nullptr)
      : catalog_(catalog), memory_(memory), log_(log) {}

  // Waits for background work. Everything that it gave must have been destroyed.
  ~Loader() { AwaitBackground(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Sets the executor for work that no caller waits for: committing joins, compacting the log,
  // letting go of epochs. Such work waits for the disk. Without an executor the calling thread does
  // it at once. Not thread-safe: call it before everything else. The executor must run all work
  // before the loader is destroyed.
  void RunInBackground(Executor executor) { background_ = std::move(executor); }
  // Runs such work.
  void InBackground(std::function<void()> work);
  // Waits until nothing is done in the background.
  void AwaitBackground();

  // The same for plans of windows, which take seconds. `work` asks `is_cancelled` now and then. By
  // default the calling thread plans at once.
  enum class WindowOrder {
    // A worker waits for it and has had no batch yet: the first window of an epoch, or the one with
    // which a worker goes on. It should be planned before those of kLater, whoever's they are.
    kFirst,
    // Batches of the window before it are still to be delivered, or were a moment ago.
    kLater,
  };
  using Planning = std::function<void(const std::function<bool()>& is_cancelled)>;
  using PlanExecutor =
      std::function<void(const ClientId& client, WindowOrder order, Planning work)>;
  void PlanInBackground(PlanExecutor executor) { plan_executor_ = std::move(executor); }

  // The same for epochs that jobs load next: while one is delivered, the next one is planned and
  // mixed, and opening it finds it ready, with the same bytes. Nobody waits for `work` yet; it asks
  // what it is given now and then. The executor returns what is to be called when somebody does.
  // Without an executor nothing is made ahead. Of kinds of wings, segments and measured
  // devices nothing is.
  using AheadWork = std::function<void(const Cancellation& cancellation)>;
  using AheadExecutor = std::function<std::function<void()>(
      const ClientId& client, const std::string& job, AheadWork work)>;
  void PrepareAheadBy(AheadExecutor executor) { ahead_executor_ = std::move(executor); }

  // The figures of an epoch and its progress; opens nothing. `job`: the request's, if it is known.
  // Errors as EpochCatalog::Prepare; FAILED_PRECONDITION for an epoch that was opened with other
  // words.
  struct Description {
    std::shared_ptr<const LoadableEpoch> epoch;
    EpochProgress progress;
    std::optional<Company> company;
  };
  // Whose share the progress has: one of them, or nobody's. Then also errors as Job::ProgressOf, or
  // as Evaluate.
  struct Sharer {
    std::optional<JoinRequest> worker;
    std::optional<EvaluationRequest> evaluation;
  };
  // `cancellation` as for EpochCatalog::Prepare. `tells_company`: LoadableEpoch::MeasureCompany().
  absl::StatusOr<Description> Describe(Job* job, EpochRequest request,
                                       const Cancellation& cancellation = {},
                                       const Sharer& sharer = {}, bool tells_company = false);

  // Joins an epoch of the job, as PlanJoin() says. The join is committed later, with others; the
  // session's HasJoined() has the result, with the errors of Job::StartJoin(). `wake` is called
  // when the session has said to wait and may have more now. `wake` must not block. Any thread may
  // call it, and it may be called once more after the session has gone. At most `max_in_flight`
  // batches, at least 1, are leased to it.
  //
  // Errors as EpochCatalog::Prepare, which asks `cancellation`.
  absl::StatusOr<std::unique_ptr<LoadSession>> StartLoad(std::shared_ptr<Job> job,
                                                         EpochRequest request, JoinRequest join,
                                                         size_t max_in_flight,
                                                         std::function<void()> wake,
                                                         const Cancellation& cancellation = {});
  // The same, and waits until the worker has joined. An error is the reason why it has not.
  absl::StatusOr<std::unique_ptr<LoadSession>> Load(std::shared_ptr<Job> job, EpochRequest request,
                                                    JoinRequest join, size_t max_in_flight,
                                                    std::function<void()> wake,
                                                    const Cancellation& cancellation = {});

  // One pass over an epoch, of which the service keeps nothing; the request's job may be empty. Its
  // use may be EpochUse::kExport, and is an evaluation otherwise.
  // Errors as EpochCatalog::Prepare, which asks `cancellation`, and Evaluation::Open. `client` and
  // `wake` are of an epoch in segments: who waits for them, and what is called when Next() of the
  // evaluation has said to wait and may have more. `wake` must not block. Any thread may call it,
  // also when the evaluation is gone.
  absl::StatusOr<std::unique_ptr<Evaluation>> Evaluate(EpochRequest request,
                                                       EvaluationRequest evaluation,
                                                       const ClientId& client = {},
                                                       std::function<void()> wake = nullptr,
                                                       const Cancellation& cancellation = {});

  // An epoch itself, with what a planner found before (EpochCatalog::Prepare). The last reference
  // to it is dropped in the background: the last reader of a deleted data set erases it from the
  // disk.
  absl::StatusOr<std::shared_ptr<const PreparedEpoch>> Prepare(
      const EpochRequest& request, const Cancellation& cancellation,
      const std::optional<KeptPlannerResult>& kept = std::nullopt);

  // An epoch whose batches are made again (RebuildSource), with the plan that `opened` has. Errors
  // as EpochCatalog::Prepare. FAILED_PRECONDITION naming the first difference, if `opened` is of
  // the same epoch, and the epoch that can be made of the request is another one; and for another
  // epoch of an adaptive job, whose limits nobody knows.
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Rebuild(EpochRequest request,
                                                               const Job::Opened& opened,
                                                               const Cancellation& cancellation);

 private:
  friend class LoadSession;

  // The last reference to the epoch is dropped in the background: the last reader of a deleted data
  // set erases it from the disk.
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> PrepareAny(
      const EpochRequest& request, const ClientId& client, const Cancellation& cancellation,
      const std::optional<KeptPlannerResult>& kept);
  // Runs `work` by the plan executor.
  void PlanSoon(const ClientId& client, WindowOrder order, Planning work);
  // Plans the first window of a new epoch, and waits for it. CANCELLED if the call is given up.
  absl::Status PlanFirst(const ClientId& client, std::shared_ptr<const LoadableEpoch> epoch,
                         const Cancellation& cancellation);
  // Plans a window for an opening of an epoch of a job, or makes a segment of it. Is given up when
  // the job forgets the epoch.
  void PlanWindow(std::shared_ptr<Job> job, const EpochKey& key, uint64_t opening,
                  std::shared_ptr<const LoadableEpoch> epoch, uint64_t window, WindowOrder order,
                  const ClientId& client);
  // The request for the epoch after this one, without its lists; nullopt if it is not made ahead.
  // The request is changed only in between.
  std::optional<EpochRequest> NextOf(EpochRequest& request) const;
  // Has the epoch made ready, once.
  void PrepareNextSoon(const std::shared_ptr<Job>& job, EpochRequest request,
                       const ClientId& client);
  // The same, now.
  void PrepareNext(Job& job, EpochRequest request, const Cancellation& cancellation);
  // Makes a segment, or plans a window, for an evaluation, unless that is being done for another.
  void MakeSegmentSoon(std::shared_ptr<const LoadableEpoch> epoch, uint32_t segment,
                       const ClientId& client, SegmentMakings::Waiter waiter);
  // What stays as it was when the epoch was first opened. The ranks that rounds are planned for
  // become the request's. Returns the plan; nullopt if none is kept for this request. `job` may be
  // null.
  std::optional<KeptPlannerResult> Adopt(const Job* job, const std::optional<Cursor>& cursor,
                                         EpochRequest& request) const;
  std::optional<KeptPlannerResult> Adopt(const Job::Opened& opened, EpochRequest& request) const;
  // One more piece of work in the background, as long as the result lives: so it no longer counts
  // when it is done, and also if an executor has no memory for it.
  std::shared_ptr<Loader> CountInBackground();

  EpochCatalog* const catalog_;
  MemoryBudget* const memory_;
  LimitedLog* const log_;
  MeasuredLimits measured_limits_;
  SegmentMakings segment_makings_;
  Executor background_ = [](const std::function<void()>& work) { work(); };
  PlanExecutor plan_executor_ = [](const ClientId& /*client*/, WindowOrder /*order*/,
                                   const Planning& work) { work([] { return false; }); };

  AheadExecutor ahead_executor_;

  absl::Mutex background_mutex_;
  size_t num_in_background_ ABSL_GUARDED_BY(background_mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LOADER_H_
