// Forgets epochs that nobody uses any more, now and then, and frees what nobody loads.
#ifndef PACKHOUSE_SERVICE_DELIVERY_RETENTION_TIMER_H_
#define PACKHOUSE_SERVICE_DELIVERY_RETENTION_TIMER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/admission/job_pool.h"
#include "service/base/clock.h"
#include "service/delivery/loader.h"

namespace packhouse {

// Made by std::make_shared: the clock may hold it a moment longer than its owner. Thread-safe.
class RetentionTimer : public std::enable_shared_from_this<RetentionTimer> {
 public:
  // The work waits for the disk, on `pool`, which outlives the timer.
  RetentionTimer(Clock* clock, JobPool* pool, Loader* loader, absl::Duration retention)
      : clock_(clock), pool_(pool), retention_(retention), loader_(loader) {}

  // To be called once. Nothing happens without a loader.
  void Start();
  // The loader is about to go. Waits until nobody is at it.
  void Stop();

  // How often: often enough that an epoch outlives its time by an eighth at most, but every ten
  // minutes at least and every second at most.
  static absl::Duration PeriodOf(absl::Duration retention);

 private:
  void Fire();
  void SetTimer();

  Clock* const clock_;
  JobPool* const pool_;
  const absl::Duration retention_;
  absl::Mutex mutex_;  // Taken before the loader's.
  Loader* loader_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_RETENTION_TIMER_H_
