// Data sets that this server has and may not change.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_FIXED_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_FIXED_DATASET_STORE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Refuses changes with FAILED_PRECONDITION and the given reason; everything else is the other
// store's. Thread-safe.
class FixedDatasetStore final : public DatasetStore {
 public:
  // `store` must outlive this.
  FixedDatasetStore(const DatasetStore* store, std::string why)
      : store_(store), refusal_(absl::FailedPreconditionError(why)) {}

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
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override {
    return store_->GetProducer(target, producer);
  }
  absl::StatusOr<DatasetInfo> Seal(const Target& /*target*/) override { return refusal_; }
  absl::Status Delete(const Target& /*target*/) override { return refusal_; }

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

 private:
  const DatasetStore* const store_;
  const absl::Status refusal_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_FIXED_DATASET_STORE_H_
