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
#include "service/stores/limits/disk_quota.h"

namespace packhouse {

// Refuses what would exceed a quota with RESOURCE_EXHAUSTED, naming the namespace, the quota, its
// bound and the value; everything else is the other store's. To count is O(data sets). Thread-safe.
class QuotaDatasetStore final : public DatasetStore {
 public:
  // The store and the disk's quota must outlive this; the quota counts this store's bytes too.
  QuotaDatasetStore(DatasetStore* store, QuotasOf quotas_of, DiskQuota* disk);

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override;
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override {
    return store_->GetProducer(target, producer);
  }
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override { return store_->Seal(target); }
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
    return store_->Get(name);
  }
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override {
    return store_->GetHistogram(name);
  }
  absl::StatusOr<SizeHistogram> GetReservedHistogram(
      absl::string_view name,
      absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const override {
    return store_->GetReservedHistogram(name, reserve);
  }
  absl::StatusOr<DatasetList> List(size_t page_size, absl::string_view page_token) const override {
    return store_->List(page_size, page_token);
  }
  absl::Status Delete(const Target& target) override { return store_->Delete(target); }
  absl::StatusOr<VerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const VerifyProgress&)> progress) const override {
    return store_->Verify(name, progress);
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    return store_->OpenReader(name);
  }
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override {
    return store_->OpenChunks(name);
  }

  struct Use {
    uint64_t datasets = 0;
    uint64_t bytes = 0;
  };
  // Of all namespaces that have any. O(data sets).
  absl::StatusOr<std::map<std::string, Use>> CountAll() const;

 private:
  absl::StatusOr<Use> Count(absl::string_view where) const;

  DatasetStore* const store_;
  const QuotasOf quotas_of_;
  DiskQuota* const disk_;
  // One creation after another, so that two do not take the same last place.
  absl::Mutex creating_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_QUOTA_DATASET_STORE_H_
