// The jobs of a server. A server that is alone has all jobs; where several servers share the jobs,
// it has those that it owns. Each job has a log of its own.
//
// Start here: Open() gives a Job (job.h), or says where it is. Loader (loader.h) joins workers to
// it.
//
// Locks. A job has its own mutex (job.h). The map of jobs has another, which is taken before a
// job's. Both are held only for moments, and never while waiting for a log. So calls that only use
// leases never wait for a call that waits for the disk.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOBS_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOBS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/engine/jobs/epoch_quota.h"
#include "service/engine/jobs/gathering_places.h"
#include "service/engine/jobs/job.h"
#include "service/engine/jobs/loader.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse {

struct JobList {
  std::vector<JobSummary> jobs;
  std::string next_page_token;  // Empty: there are no more.
};

struct JobsOptions {
  // Dynamic workers that are silent for this long lose their batches.
  absl::Duration lease_duration = absl::Minutes(5);
  // How long workers that come together wait for the next one (job_state.h); zero: not at all.
  absl::Duration gather_joins = absl::ZeroDuration();
  // How many threads may wait so at the same time, of all jobs together.
  size_t gathering_places = 2;
  // The most remembered epochs of all jobs that are here: begun and not finished, or among a job's
  // latest.
  size_t max_epochs = 4096;
  // The most of these that one client has opened.
  size_t max_epochs_per_client = 1024;
  // Of namespaces; null: they have none.
  QuotasOf quotas_of = nullptr;
  // Counts what other servers have of a namespace; null: there are none.
  EpochsElsewhere epochs_elsewhere = nullptr;
  // Epochs that nobody has used for this long are forgotten (ForgetUnused()).
  absl::Duration epoch_retention = absl::Hours(24 * 30);
  // The number of finished epochs of a job that are remembered, for late acknowledgements.
  size_t kept_finished_epochs = 8;
  // When a job's log has this many records, it is rewritten without outdated ones.
  size_t max_log_records = 65536;
};

// Thread-safe. Open() waits for the store of the logs, also for other calls about the same job; the
// others do not wait for it, unless they say so.
class Jobs {
 public:
  // The pointees must outlive it; `memory` may be null. The memory of jobs (names, epochs,
  // acknowledgements, leases) is held from it. A server that is alone opens all jobs at once:
  // errors as Open().
  static absl::StatusOr<std::unique_ptr<Jobs>> Create(Loader* loader, JobLogs* logs,
                                                      const JobsOptions& options,
                                                      MemoryBudget* memory);
  // No stream of a job is left. Waits for background work of the loader.
  ~Jobs();
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  // Either `job` is set, or another server is named by `owner`.
  struct Place {
    std::shared_ptr<Job> job;
    JobOwner owner;
  };
  // Where a job is; it need not have any epochs. If nobody owns it, and this server should, it
  // becomes the owner. Whoever has the result keeps the job here, unless it is lost. Errors as
  // JobLogs::Open(), and those of its log; DATA_LOSS as JobLedger::Replay(); UNAVAILABLE
  // after EndAll(), unless the job is here, and if another call takes longer than kLongestWait to
  // open it.
  //
  // Generations of before what the logs lie in was restored from a backup are over: each epoch that
  // has one gets another, so that workers of before are refused.
  static constexpr absl::Duration kLongestWait = absl::Seconds(2);
  absl::StatusOr<Place> Open(const std::string& name);

  // Gives the job, which is here, to the server at `address`, and ends its streams, so that their
  // workers go there: what they have not acknowledged is given to them again, as when this server
  // drains. NOT_FOUND if there is no such server; UNAVAILABLE if the job is not here, or it is not
  // known whether it moved. Waits for the store.
  absl::Status Move(const std::string& name, const std::string& address);

  // Of JobLogs.
  bool is_alone() const { return logs_->is_alone(); }
  const std::string& address() const { return logs_->address(); }
  std::vector<std::string> members() const { return logs_->members(); }
  JobDirectory* directory() const { return logs_->directory(); }

  // Lets go of what nobody needs here. Ends the streams of jobs that are lost or in doubt, so that
  // their workers ask another server, and drops those whose streams have ended. Gives back jobs
  // without streams: at once those of which nothing is kept, and where servers share the jobs, the
  // others after kIdleTurns calls. The names of those that are no longer here, and of which nothing
  // was kept. To be called now and then, by one thread; waits for the store.
  static constexpr int kIdleTurns = 600;
  std::vector<std::string> Sweep();
  // Ends all streams with `status`, and opens no job any more.
  void EndAll(const absl::Status& status);

  // Jobs that have epochs, by name: those after the name `after`, of all servers. A page may be
  // shorter than asked for, and is the last only if its token is empty. At most kMaxPageSize jobs
  // in a page (0: 100), and kMaxListedEpochs epochs of each job; of jobs that other servers may
  // have, what they have last said, and who owns them. Jobs that `may_see` refuses are left out.
  // Waits for the store if servers share the jobs; UNIMPLEMENTED if there is no directory of them.
  static constexpr size_t kMaxPageSize = 1000;
  static constexpr size_t kMaxListedEpochs = 100;
  absl::StatusOr<JobList> List(size_t page_size, const std::string& after,
                               absl::FunctionRef<bool(const std::string& job)> may_see) const;

  // The first epoch that may be shown and whose kept plan has this receipt, and the plan: of jobs
  // that are here, then of all others that the directory has and `may_see` allows, whose logs it
  // reads one after the other until one has the receipt. So it may be asked seldom, and takes as
  // long as the logs are large. Logs that are damaged, or of another release, are passed over. One
  // call at a time reads logs: RESOURCE_EXHAUSTED for others, and if `memory` has no room for a
  // log. Ends early with CANCELLED if `is_cancelled` says so, or the caller (base/caller.h) is
  // gone. NOT_FOUND naming the receipt; DATA_LOSS and RESOURCE_EXHAUSTED of the plan; UNAVAILABLE
  // if the store does not answer.
  struct Planned {
    Job::Opened opened;
    std::shared_ptr<const PlannerResult> plan;
  };
  absl::StatusOr<Planned> FindPlan(absl::string_view receipt,
                                   absl::FunctionRef<bool(const std::string& job)> may_see,
                                   absl::FunctionRef<bool(const EpochIdentity&)> may_show,
                                   absl::FunctionRef<bool()> is_cancelled) const;

  // Forgets epochs that nobody has used for as long as the options say; returns how many. The first
  // error; the other jobs are done all the same. Frees the memory of epochs that nobody loads
  // (Job::Rest). Waits for the logs. A server that is alone sweeps, too.
  absl::StatusOr<size_t> ForgetUnused(absl::Time now);
  absl::Duration epoch_retention() const { return options_.epoch_retention; }

  // Gives back expired leases; the time at which the next one expires, InfiniteFuture if there is
  // none.
  void Expire(absl::Time now);
  absl::Time NextExpiry() const;

  // The jobs that are here, by name.
  std::vector<std::shared_ptr<Job>> Here() const;
  size_t num_here() const;
  // A job if it is here; null if it is not. Opens nothing.
  std::shared_ptr<Job> Find(const std::string& name) const;
  // How often this server has become the owner of a job; and of one that was begun before, by
  // another server as a rule.
  struct Counts {
    uint64_t num_opened = 0;
    uint64_t num_taken_over = 0;
  };
  Counts counts() const;

  // Remembered epochs here, of all namespaces that have any.
  std::map<std::string, uint64_t> EpochsByNamespace() const { return quota_.CountByNamespace(); }
  // The workers that load epochs now, by job and session. O(sessions and their batches in flight).
  std::vector<SessionSummary> Sessions() const;
  // For metrics. O(open epochs) and the runs of batches of those that are loaded. Totals have jobs
  // that were here.
  DeliverySnapshot Snapshot() const;

  GatheringPlaces& gathering() { return gathering_; }

 private:
  // One call opens, moves or gives back a job, others about the same job wait for it.
  struct Entry {
    bool is_opening = false;
    std::shared_ptr<Job> job;
    // Calls of Sweep() that have found it without streams, in a row.
    int num_idle_turns = 0;
  };
  using Retired = std::vector<std::shared_ptr<Job>>;

  Jobs(Loader* loader, JobLogs* logs, const JobsOptions& options, MemoryBudget* memory);

  // The job, if it is here and not lost.
  std::shared_ptr<Job> Here(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until no other call opens or moves the job. UNAVAILABLE if that takes longer than
  // kLongestWait, and after EndAll().
  absl::Status AwaitTurn(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsIdle(Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Place> OpenLog(const std::string& name);
  // A job is about to go.
  void KeepTotals(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of a server that is alone: drops jobs that have never had anything, once there are many more
  // than after the last time. The result is to be destroyed without the mutex.
  Retired DropUnknown() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<JobList> ListDirectory(size_t page_size, const std::string& after,
                                        absl::FunctionRef<bool(const std::string&)> may_see) const;
  JobList ListHere(size_t page_size, const std::string& after,
                   absl::FunctionRef<bool(const std::string&)> may_see) const;

  Loader* const loader_;
  JobLogs* const logs_;
  const JobsOptions options_;
  MemoryBudget* const memory_;
  EpochQuota quota_;
  GatheringPlaces gathering_;
  const JobEnvironment environment_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  // Lost; their streams are ending.
  Retired retired_ ABSL_GUARDED_BY(mutex_);
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  DeliverySnapshot gone_ ABSL_GUARDED_BY(mutex_);  // Totals of jobs that were here.
  size_t next_drop_ ABSL_GUARDED_BY(mutex_) = 64;  // For how many jobs.
  // FindPlan() reads the logs of others.
  mutable std::atomic<bool> is_searching_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOBS_H_
