// Gives back leases when they expire.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LEASE_TIMER_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LEASE_TIMER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/job_pool.h"
#include "service/base/clock.h"
#include "service/engine/jobs/jobs.h"

namespace packhouse {

// Made by std::make_shared: the clock may hold it a moment longer than its owner. Thread-safe.
class LeaseTimer : public std::enable_shared_from_this<LeaseTimer> {
 public:
  // Leases are given back on `pool`, which outlives the timer: the clock's thread must not wait for
  // a job's mutex.
  LeaseTimer(Clock* clock, JobPool* pool, Jobs* jobs) : clock_(clock), pool_(pool), jobs_(jobs) {}

  // To be called with the end of each new lease. All leases are equally long, so the timer is never
  // late. O(1).
  void Arm(absl::Time expiry);

  // To be called before the jobs are destroyed. Waits until the timer no longer uses it.
  void Stop();

 private:
  void Fire();
  void ArmLocked(absl::Time expiry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock* const clock_;
  JobPool* const pool_;
  absl::Mutex mutex_;  // Taken before theirs.
  Jobs* jobs_ ABSL_GUARDED_BY(mutex_);
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LEASE_TIMER_H_
