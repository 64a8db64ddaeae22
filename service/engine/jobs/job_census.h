// The jobs of all servers that share them: how many epochs each namespace has, and which jobs
// nobody has used for so long that their epochs are to be forgotten.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_CENSUS_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_CENSUS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/engine/jobs/jobs.h"
#include "service/stores/logs/job_directory.h"

namespace packhouse {

// EpochsElsewhere() is thread-safe; one thread calls Turn().
class JobCensus {
 public:
  // Every so many turns the directory is read.
  static constexpr int kReadTurns = 5;
  // Jobs that are opened in a turn, since their epochs are to be forgotten.
  static constexpr int kMostOpened = 16;

  // `directory` must outlive it. `retention`: JobsOptions::epoch_retention.
  JobCensus(JobDirectory* directory, absl::Duration retention)
      : directory_(directory), retention_(retention) {}

  // Says in the directory what has changed of the jobs that are here; now and then reads what
  // others say, and forgets epochs of jobs that are nobody's and unused. The first error; the next
  // turn tries again. It goes no further if the store does not answer. To be called about each
  // second, after Jobs::Sweep().
  absl::Status Turn(Jobs& jobs, absl::Time now);

  // Jobs that Jobs::Sweep() has given back without epochs. They are removed from the
  // directory, now or as soon as that works. Without I/O; of the thread of Turn().
  void AddEmptied(const std::vector<std::string>& jobs);

  // Epochs of a namespace in all jobs but these, which are of that namespace; as far as is known.
  uint64_t EpochsElsewhere(absl::string_view where, const std::vector<std::string>& but_jobs) const;
  // Of all servers, of namespaces that have any.
  std::map<std::string, uint64_t> EpochsByNamespace() const;

 private:
  // Until the next Read(), the job counts as this server knows it.
  void Know(const ListedJob& job) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Say(const Job& job);
  absl::Status SayEmptied(const std::string& name, Jobs& jobs);
  absl::Status Read();
  std::vector<std::string> NextUnused(absl::Time now) const;
  absl::Status ForgetUnused(Jobs& jobs, absl::Time now);

  JobDirectory* const directory_;
  const absl::Duration retention_;
  // What this server has said, of jobs that are here. Of the thread of Turn().
  std::map<std::string, ListedJob> said_;
  // Jobs without epochs that the directory may still have.
  std::set<std::string> emptied_;
  int num_turns_ = 0;
  // The job that was last opened since its epochs are unused; the next ones are those after it.
  std::string last_opened_;

  mutable absl::Mutex mutex_;
  std::map<std::string, ListedJob, std::less<>> all_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t, std::less<>> by_namespace_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_JOB_CENSUS_H_
