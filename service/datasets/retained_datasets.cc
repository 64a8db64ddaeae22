#include "service/datasets/retained_datasets.h"

#include <atomic>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "service/base/status_macros.h"

namespace packhouse {

// The other store's, and says whether graphs were read.
class RetainedDatasets::Reader final : public DatasetReader {
 public:
  explicit Reader(std::shared_ptr<const DatasetReader> reader) : reader_(std::move(reader)) {}

  const DatasetInfo& info() const override { return reader_->info(); }
  const SizeHistogram& histogram() const override { return reader_->histogram(); }
  absl::Span<const uint32_t> counts() const override { return reader_->counts(); }
  absl::Span<const uint64_t> graph_ids() const override { return reader_->graph_ids(); }
  absl::Span<const uint64_t> group_ids() const override { return reader_->group_ids(); }
  absl::Span<const DamagedRecord> unreadable() const override { return reader_->unreadable(); }
  absl::StatusOr<StoredGraph> Graph(size_t i) const override {
    if (!was_read_.load(std::memory_order_relaxed)) {
      was_read_.store(true, std::memory_order_relaxed);
    }
    return reader_->Graph(i);
  }
  absl::Status CheckIntact() const override { return reader_->CheckIntact(); }

  // Since the last call.
  bool TakeWasRead() const { return was_read_.exchange(false, std::memory_order_relaxed); }

 private:
  const std::shared_ptr<const DatasetReader> reader_;
  mutable std::atomic<bool> was_read_ = false;
};

// The other store's, whose readers say whether graphs were read.
class RetainedDatasets::Chunks final : public DatasetChunks {
 public:
  Chunks(const RetainedDatasets* datasets, std::shared_ptr<const DatasetChunks> chunks)
      : datasets_(datasets), chunks_(std::move(chunks)) {}

  const DatasetInfo& info() const override { return chunks_->info(); }
  absl::Span<const uint32_t> num_graphs() const override { return chunks_->num_graphs(); }
  uint64_t bytes() const override { return chunks_->bytes(); }
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
    return chunks_->AddSizes(chunk, histogram);
  }
  std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> chunks) const override {
    return chunks_->ReadSizes(chunks);
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> chunks) const override {
    PH_ASSIGN_OR_RETURN(auto reader, chunks_->Open(chunks));
    return datasets_->Retain(std::move(reader));
  }

 private:
  const RetainedDatasets* const datasets_;
  const std::shared_ptr<const DatasetChunks> chunks_;
};

RetainedDatasets::RetainedDatasets(DatasetStore* store, std::string path, Retention retention,
                                   std::function<absl::Time()> now)
    : store_(store),
      uses_(std::move(path), std::move(retention), std::move(now),
            [this](absl::FunctionRef<void(const std::string&)> used) { CountReads(used); }) {
  // Sweep() asks again.
  ForAllListed(*store_, &DatasetList::datasets, [this](const DatasetInfo& info) {
    uses_.Know(info.name);
  }).IgnoreError();
}

void RetainedDatasets::CountReads(absl::FunctionRef<void(const std::string&)> used) const {
  absl::MutexLock lock(&mutex_);
  std::erase_if(readers_, [&](const std::weak_ptr<const Reader>& weak) {
    const auto reader = weak.lock();
    if (reader == nullptr) return true;
    if (reader->TakeWasRead()) used(reader->info().name);
    return false;
  });
}

absl::Status RetainedDatasets::Sweep(std::vector<Expired>& expired) {
  return DeleteUnused(*store_, &DatasetList::datasets, uses_, expired);
}

absl::StatusOr<DatasetInfo> RetainedDatasets::Create(absl::string_view name,
                                                     const GraphSchema& schema,
                                                     const DatasetOptions& options) {
  auto created = store_->Create(name, schema, options);
  if (created.ok()) uses_.Add(std::string(name));
  return created;
}

absl::StatusOr<AppendResult> RetainedDatasets::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  // Before, so that it is not deleted meanwhile.
  uses_.Use(target.name);
  return store_->AppendTo(target, chunk, group_ids, producer);
}

absl::StatusOr<DatasetInfo> RetainedDatasets::Seal(absl::string_view name) {
  uses_.Use(name);
  return store_->Seal(name);
}

absl::Status RetainedDatasets::Delete(absl::string_view name) {
  PH_RETURN_IF_ERROR(store_->Delete(name));
  uses_.Forget(name);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> RetainedDatasets::OpenReader(
    absl::string_view name) const {
  uses_.Use(name);
  PH_ASSIGN_OR_RETURN(auto reader, store_->OpenReader(name));
  return Retain(std::move(reader));
}

absl::StatusOr<std::shared_ptr<const DatasetChunks>> RetainedDatasets::OpenChunks(
    absl::string_view name) const {
  uses_.Use(name);
  PH_ASSIGN_OR_RETURN(auto chunks, store_->OpenChunks(name));
  return std::make_shared<const Chunks>(this, std::move(chunks));
}

std::shared_ptr<const DatasetReader> RetainedDatasets::Retain(
    std::shared_ptr<const DatasetReader> reader) const {
  auto retained = std::make_shared<const Reader>(std::move(reader));
  absl::MutexLock lock(&mutex_);
  std::erase_if(readers_, [](const auto& weak) { return weak.expired(); });
  readers_.push_back(retained);
  return retained;
}

}  // namespace packhouse
