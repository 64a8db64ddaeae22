// Bounds the number of remembered epochs, of all clients and of each.
#ifndef PACKHOUSE_SERVICE_DELIVERY_EPOCH_QUOTA_H_
#define PACKHOUSE_SERVICE_DELIVERY_EPOCH_QUOTA_H_

#include <cstddef>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/admission/client_identity.h"

namespace packhouse {

// Thread-safe; its lock is never held while waiting for anything else.
class EpochQuota {
 public:
  EpochQuota(size_t max_epochs, size_t max_epochs_per_client)
      : max_epochs_(max_epochs), max_epochs_per_client_(max_epochs_per_client) {}

  // Counts one more epoch. RESOURCE_EXHAUSTED naming the value, the bound and its flag. An empty
  // client is unknown, and counts only among all.
  absl::Status Take(const ClientId& client);
  // Counts one more epoch, even beyond the bounds, since it exists already.
  void TakeAnyway(const ClientId& client);
  // Gives back an epoch that was taken.
  void GiveBack(const ClientId& client);

  size_t num_epochs() const;

 private:
  const size_t max_epochs_;
  const size_t max_epochs_per_client_;

  mutable absl::Mutex mutex_;
  size_t num_epochs_ ABSL_GUARDED_BY(mutex_) = 0;
  // The numbers of clients that have any.
  std::map<ClientId, size_t> by_client_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_EPOCH_QUOTA_H_
