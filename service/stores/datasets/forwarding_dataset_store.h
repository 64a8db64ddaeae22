// A store laid over another one.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_FORWARDING_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_FORWARDING_DATASET_STORE_H_

#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// The other store, but for what a derived class overrides. Thread-safe as that store.
class ForwardingDatasetStore : public DatasetStore {
 public:
  // `store` must outlive this.
  explicit ForwardingDatasetStore(DatasetStore* store) : store_(store) {}

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override {
    return store_->Create(name, schema, options);
  }
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override {
    return store_->AppendTo(target, chunk, group_ids, producer);
  }
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

 protected:
  DatasetStore* store() const { return store_; }

 private:
  DatasetStore* const store_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_FORWARDING_DATASET_STORE_H_
