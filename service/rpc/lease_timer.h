// Gives back leases when they expire.
#ifndef PACKHOUSE_SERVICE_RPC_LEASE_TIMER_H_
#define PACKHOUSE_SERVICE_RPC_LEASE_TIMER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/delivery/loader.h"
#include "service/rpc/clock.h"

namespace packhouse::rpc {

// Made by std::make_shared: the clock may hold it a moment longer than its owner. Thread-safe.
class LeaseTimer : public std::enable_shared_from_this<LeaseTimer> {
 public:
  LeaseTimer(Clock* clock, Loader* loader) : clock_(clock), loader_(loader) {}

  // To be called when there is a new lease. As all leases are equally long, the time that is waited
  // for is never too late. O(1) but for the first.
  void Arm();

  // The loader is about to go. Waits until nobody is at it.
  void Stop();

 private:
  void Fire();
  void ArmLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock* const clock_;
  absl::Mutex mutex_;  // Taken before the loader's.
  Loader* loader_ ABSL_GUARDED_BY(mutex_);
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_LEASE_TIMER_H_
