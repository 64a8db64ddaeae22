// Forgets epochs that nobody uses any more, and frees the memory of epochs that nobody loads, at
// regular times.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_RETENTION_TIMER_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_RETENTION_TIMER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/job_pool.h"
#include "service/base/clock.h"
#include "service/engine/jobs/jobs.h"

namespace packhouse {

// Made by std::make_shared: the clock may hold it a moment longer than its owner. Thread-safe.
class RetentionTimer : public std::enable_shared_from_this<RetentionTimer> {
 public:
  // The work runs on `pool`, where it waits for the disk. `pool` outlives the timer.
  RetentionTimer(Clock* clock, JobPool* pool, Jobs* jobs, absl::Duration retention)
      : clock_(clock), pool_(pool), retention_(retention), jobs_(jobs) {}

  // May be called once. Does nothing without jobs.
  void Start();
  // To be called before the jobs are destroyed. Waits until the timer no longer uses it.
  void Stop();

  // The period: an eighth of the retention, so that an epoch outlives its time by at most an
  // eighth; at least a second and at most ten minutes.
  static absl::Duration PeriodOf(absl::Duration retention);

 private:
  void Fire();
  void SetTimer();

  Clock* const clock_;
  JobPool* const pool_;
  const absl::Duration retention_;
  absl::Mutex mutex_;  // Taken before theirs.
  Jobs* jobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_RETENTION_TIMER_H_
