// A store whose namespaces have quotas (access/policy.h).
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_QUOTA_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_QUOTA_DATASET_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/access/policy.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "service/stores/limits/disk_quota.h"

namespace packhouse {

// Refuses what would exceed a quota with RESOURCE_EXHAUSTED, naming the namespace, the quota, its
// bound and the value; everything else is the other store's. To count is O(data sets). Thread-safe.
class QuotaDatasetStore final : public ForwardingDatasetStore {
 public:
  // The store and the disk's quota must outlive this; the quota counts this store's bytes too.
  QuotaDatasetStore(DatasetStore* store, QuotasOf quotas_of, DiskQuota* disk);

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override;
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override;

  struct Use {
    uint64_t datasets = 0;
    uint64_t bytes = 0;
  };
  // Of all namespaces that have any. O(data sets).
  absl::StatusOr<std::map<std::string, Use>> CountAll() const;

 private:
  absl::StatusOr<Use> Count(absl::string_view where) const;

  const QuotasOf quotas_of_;
  DiskQuota* const disk_;
  // One creation after another, so that two do not take the same last place.
  absl::Mutex creating_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_QUOTA_DATASET_STORE_H_
