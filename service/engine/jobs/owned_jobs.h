// Which loader has a job: the one of the server; or, where several servers share the jobs, one for
// each job that this server owns.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_OWNED_JOBS_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_OWNED_JOBS_H_

#include <atomic>
#include <functional>
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
#include "absl/types/span.h"
#include "service/base/early_end.h"
#include "service/engine/jobs/loader.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse {

// The log of a loader that keeps no jobs: it has nothing, and takes nothing (UNAVAILABLE). Where
// jobs have loaders of their own, such a loader serves evaluations and exports.
class NoLog final : public RecordLog {
 public:
  absl::Status Append(absl::Span<const std::string> records) override;
  absl::StatusOr<std::vector<std::string>> ReadAll() override { return std::vector<std::string>(); }
  absl::Status Replace(absl::Span<const std::string> records) override { return Append(records); }
};

// What works beside a job's loader: executors and timers.
class JobCompany {
 public:
  // Stops what it does with the loader, which lives on for a moment.
  virtual ~JobCompany() = default;
  // A batch was leased until then. Thread-safe.
  virtual void OnLeased(absl::Time until) = 0;
};

// A job of this server, from its log's opening on. When the job is lost, its streams end, and it
// stays as it is until the last of them has gone. Thread-safe.
class OwnedJob {
 public:
  const std::string& name() const { return name_; }
  Loader& loader() const { return *loader_; }
  // Ends the job's streams when it is lost.
  EarlyEnd& early_end() { return early_end_; }
  void OnLeased(absl::Time until) const { company_->OnLeased(until); }
  // OwnedLog::ownership(). To be asked before anything of the job is sent.
  absl::Status ownership() const { return log_->ownership(); }

 private:
  friend class OwnedJobs;

  std::string name_;
  std::unique_ptr<OwnedLog> log_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<JobCompany> company_;
  EarlyEnd early_end_;
};

// Thread-safe. Open() waits for the store of the logs, also for other calls about the same job; the
// others do not wait for it, unless they say so.
class OwnedJobs {
 public:
  // Sessions of a job are numbered from its owner's revision on: up to 2^20 sessions an owner.
  static constexpr int kSessionBits = 20;

  // Called with each new loader, before anything else is. The result is destroyed before the
  // loader.
  using Accompany = std::function<std::unique_ptr<JobCompany>(Loader& loader)>;

  // The pointees must outlive it; `memory` may be null. `options` hold for each job by itself:
  // bounds on epochs are bounds a job. But `gathering` is for all of them together.
  OwnedJobs(EpochCatalog* catalog, JobLogs* logs, const LoaderOptions& options,
            MemoryBudget* memory, Accompany accompany);
  // No stream of a job is left.
  ~OwnedJobs();

  // Either `job` is set, or another server is named by `owner`.
  struct Place {
    std::shared_ptr<OwnedJob> job;
    JobOwner owner;
  };
  // Where a job is. If nobody owns it, and this server should, it becomes the owner. Errors as
  // JobLogs::Open() and Loader::Open(); UNAVAILABLE after EndAll(), and if another call takes
  // longer than kLongestWait to open the job.
  static constexpr absl::Duration kLongestWait = absl::Seconds(2);
  absl::StatusOr<Place> Open(const std::string& name);

  // Gives the job, which is here, to the server at `address`, and ends its streams, so that their
  // workers go there: what they have not acknowledged is given to them again, as when this server
  // drains. NOT_FOUND if there is no such server; UNAVAILABLE if the job is not here, or it is not
  // known whether it moved. Waits for the store.
  absl::Status Move(const std::string& name, const std::string& address);

  // Of JobLogs.
  const std::string& address() const { return logs_->address(); }
  std::vector<std::string> members() const { return logs_->members(); }

  // JobLogs::directory().
  JobDirectory* directory() const { return logs_->directory(); }

  // Ends the streams of jobs that are lost or in doubt, so that their workers ask another server,
  // and drops those whose streams have ended. Gives back jobs without streams: at once those of
  // which nothing is kept, the others after kIdleTurns calls. The names of those that are no longer
  // here, and of which nothing was kept. To be called now and then, by one thread; waits for the
  // store.
  static constexpr int kIdleTurns = 600;
  std::vector<std::string> Sweep();
  // Ends all streams with `status`, and opens no job any more.
  void EndAll(const absl::Status& status);

  // Loader::FindPlan() of the jobs of all servers: of those that are here, then of all others that
  // the directory has and `may_see` allows, whose logs it reads one after the other until one has
  // the receipt. So it may be asked seldom, and takes as long as the logs are large. Logs that are
  // damaged, or of another release, are passed over. One call at a time reads logs:
  // RESOURCE_EXHAUSTED for others, and if `memory` has no room for a log. Ends early with CANCELLED
  // if `given_up` says so, or the caller (base/caller.h) is gone. UNAVAILABLE if the store does not
  // answer.
  absl::StatusOr<Loader::Planned> FindPlan(absl::string_view receipt,
                                           absl::FunctionRef<bool(const std::string& job)> may_see,
                                           absl::FunctionRef<bool(const EpochIdentity&)> may_show,
                                           absl::FunctionRef<bool()> given_up) const;

  // The jobs that are here, by name.
  std::vector<std::shared_ptr<OwnedJob>> Jobs() const;
  // How often this server has become the owner of a job; and of one that was begun before, by
  // another server as a rule.
  struct Counts {
    uint64_t num_opened = 0;
    uint64_t num_taken_over = 0;
  };
  Counts counts() const;

 private:
  // One call opens or moves a job, others about the same job wait for it.
  struct Entry {
    bool is_opening = false;
    std::shared_ptr<OwnedJob> job;
    // Calls of Sweep() that have found it without streams, in a row.
    int num_idle_turns = 0;
  };

  // The job, if it is here and not lost.
  std::shared_ptr<OwnedJob> Here(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Retire(std::shared_ptr<OwnedJob> job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until no other call opens or moves the job. UNAVAILABLE if that takes longer than
  // kLongestWait, and after EndAll().
  absl::Status AwaitTurn(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsIdle(Entry& entry);
  absl::StatusOr<Place> OpenLog(const std::string& name);

  EpochCatalog* const catalog_;
  JobLogs* const logs_;
  const LoaderOptions options_;
  MemoryBudget* const memory_;
  const Accompany accompany_;

  mutable absl::Mutex mutex_;
  std::map<std::string, Entry> jobs_ ABSL_GUARDED_BY(mutex_);
  // Lost; their streams are ending.
  std::vector<std::shared_ptr<OwnedJob>> retired_ ABSL_GUARDED_BY(mutex_);
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  // FindPlan() reads the logs of others.
  mutable std::atomic<bool> is_searching_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_OWNED_JOBS_H_
