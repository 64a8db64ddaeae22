// Data sets that this server has and may not change.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_FIXED_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_FIXED_DATASET_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/forwarding_dataset_store.h"

namespace packhouse {

// Refuses changes with FAILED_PRECONDITION and the given reason; everything else is the other
// store's. Thread-safe.
class FixedDatasetStore final : public ForwardingDatasetStore {
 public:
  // `store` must outlive this.
  FixedDatasetStore(DatasetStore* store, std::string why)
      : ForwardingDatasetStore(store), refusal_(absl::FailedPreconditionError(why)) {}

  absl::StatusOr<DatasetInfo> Create(absl::string_view /*name*/, const GraphSchema& /*schema*/,
                                     const DatasetOptions& /*options*/) override {
    return refusal_;
  }
  absl::StatusOr<AppendResult> AppendTo(
      const Target& /*target*/, const GraphChunk& /*chunk*/,
      absl::Span<const uint64_t> /*group_ids*/,
      const std::optional<ProducerSequence>& /*producer*/) override {
    return refusal_;
  }
  absl::StatusOr<DatasetInfo> Seal(const Target& /*target*/) override { return refusal_; }
  absl::Status Delete(const Target& /*target*/) override { return refusal_; }

 private:
  const absl::Status refusal_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_FIXED_DATASET_STORE_H_
