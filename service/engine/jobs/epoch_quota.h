// Bounds the number of remembered epochs: of all clients, of each, and of each namespace.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_EPOCH_QUOTA_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_EPOCH_QUOTA_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/client_identity.h"
#include "service/access/policy.h"

namespace packhouse {

// Whose an epoch is.
struct EpochOwner {
  // Who opened it; empty: unknown, then it counts only among all and in its namespace.
  const ClientId& client;
  // Its namespace is the epoch's.
  const std::string& job;
};

// How many epochs of a namespace other servers' jobs have: all jobs but these.
using EpochsElsewhere =
    std::function<uint64_t(absl::string_view where, const std::vector<std::string>& but_jobs)>;

// Thread-safe; its lock is never held while waiting for anything but other counters.
class EpochQuota {
 public:
  // Without `quotas_of` namespaces have no quotas; without `elsewhere` there are no other servers.
  EpochQuota(size_t max_epochs, size_t max_epochs_per_client, QuotasOf quotas_of = nullptr,
             EpochsElsewhere elsewhere = nullptr)
      : max_epochs_(max_epochs),
        max_epochs_per_client_(max_epochs_per_client),
        quotas_of_(std::move(quotas_of)),
        elsewhere_(std::move(elsewhere)) {}

  // Counts one more epoch. RESOURCE_EXHAUSTED naming the value, the bound and its flag or quota.
  absl::Status Take(const EpochOwner& owner);
  // Counts one more epoch, even beyond the bounds, since it exists already.
  void TakeAnyway(const EpochOwner& owner);
  // Gives back an epoch that was taken.
  void GiveBack(const EpochOwner& owner);

  size_t num_epochs() const;
  // Of all namespaces that have any.
  std::map<std::string, uint64_t> CountByNamespace() const;

 private:
  void Add(const EpochOwner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t NumThere(const std::string& where, const std::string& job) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_epochs_;
  const size_t max_epochs_per_client_;
  const QuotasOf quotas_of_;
  const EpochsElsewhere elsewhere_;

  mutable absl::Mutex mutex_;
  // Of jobs that have any.
  std::map<std::string, uint64_t> by_job_ ABSL_GUARDED_BY(mutex_);
  size_t num_epochs_ ABSL_GUARDED_BY(mutex_) = 0;
  // The numbers of clients that have any.
  std::map<ClientId, size_t> by_client_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> by_namespace_ ABSL_GUARDED_BY(mutex_);  // Likewise.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_EPOCH_QUOTA_H_
