// Leases for keys that the key-value store forgets by itself.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_TIMED_LEASES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_TIMED_LEASES_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {

// Many keys share a lease, which nobody keeps alive. Thread-safe.
class TimedLeases {
 public:
  // Must outlive it.
  TimedLeases(KeyValueStore* keys, const Clock* clock) : keys_(keys), clock_(clock) {}

  // A lease that lasts at least `length` from now on, and at most four times as long, or four
  // hours. Errors as KeyValueStore::GrantLease().
  absl::StatusOr<LeaseId> ThatLasts(absl::Duration length);
  // The lease has ended early: it is not given again.
  void HasEnded(LeaseId lease);

 private:
  struct Granted {
    LeaseId lease = 0;
    absl::Time use_until;
  };

  KeyValueStore* const keys_;
  const Clock* const clock_;
  absl::Mutex mutex_;
  // By how long they last at least, in hours.
  std::map<int64_t, Granted> granted_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_TIMED_LEASES_H_
