#include "service/stores/datasets/retained_datasets.h"

#include <atomic>
#include <cstddef>

#include "absl/functional/function_ref.h"
#include "service/base/status_macros.h"

namespace packhouse {

// Of a reader, or of chunks: whether graphs or sizes were read. Lives a little longer than the
// reader, which nobody else has to hold then: the end of a reader may wait for the disk, and must
// not come under a lock.
struct RetainedDatasets::Reads {
  std::string dataset;
  std::atomic<bool> are_new = false;

  void Note() {
    if (!are_new.load(std::memory_order_relaxed)) are_new.store(true, std::memory_order_relaxed);
  }
};

// The other store's, and says whether graphs were read.
class RetainedDatasets::Reader final : public DatasetReader {
 public:
  Reader(std::shared_ptr<const DatasetReader> reader, std::shared_ptr<Reads> reads)
      : reader_(std::move(reader)), reads_(std::move(reads)) {}

  const DatasetInfo& info() const override { return reader_->info(); }
  const SizeHistogram& histogram() const override { return reader_->histogram(); }
  absl::Span<const uint32_t> counts() const override { return reader_->counts(); }
  absl::Span<const uint64_t> graph_ids() const override { return reader_->graph_ids(); }
  absl::Span<const uint64_t> group_ids() const override { return reader_->group_ids(); }
  absl::Span<const DamagedRecord> unreadable() const override { return reader_->unreadable(); }
  absl::StatusOr<StoredGraph> Graph(size_t i) const override {
    reads_->Note();
    return reader_->Graph(i);
  }
  absl::Status CheckIntact() const override { return reader_->CheckIntact(); }

 private:
  const std::shared_ptr<const DatasetReader> reader_;
  const std::shared_ptr<Reads> reads_;
};

// The other store's, and says whether sizes were read; as its readers of graphs.
class RetainedDatasets::Chunks final : public DatasetChunks {
 private:
  class Sizes final : public ChunkSizes {
   public:
    Sizes(std::unique_ptr<ChunkSizes> sizes, std::shared_ptr<Reads> reads)
        : sizes_(std::move(sizes)), reads_(std::move(reads)) {}
    uint64_t bytes() const override { return sizes_->bytes(); }
    absl::Status AddNext(SizeHistogram& histogram) override {
      reads_->Note();
      return sizes_->AddNext(histogram);
    }

   private:
    const std::unique_ptr<ChunkSizes> sizes_;
    const std::shared_ptr<Reads> reads_;
  };

 public:
  Chunks(const RetainedDatasets* datasets, std::shared_ptr<const DatasetChunks> chunks)
      : datasets_(datasets),
        chunks_(std::move(chunks)),
        reads_(datasets_->NewReads(chunks_->info().name)) {}

  const DatasetInfo& info() const override { return chunks_->info(); }
  absl::Span<const uint32_t> num_graphs() const override { return chunks_->num_graphs(); }
  uint64_t bytes() const override { return chunks_->bytes(); }
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
    reads_->Note();
    return chunks_->AddSizes(chunk, histogram);
  }
  std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> chunks) const override {
    return std::make_unique<Sizes>(chunks_->ReadSizes(chunks), reads_);
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> chunks) const override {
    PH_ASSIGN_OR_RETURN(auto reader, chunks_->Open(chunks));
    return datasets_->Retain(std::move(reader));
  }
  absl::Status CheckFits(absl::Span<const uint32_t> chunks) const override {
    return chunks_->CheckFits(chunks);
  }

 private:
  const RetainedDatasets* const datasets_;
  const std::shared_ptr<const DatasetChunks> chunks_;
  const std::shared_ptr<Reads> reads_;
};

RetainedDatasets::RetainedDatasets(DatasetStore* store, const MakeUses& make_uses)
    : ForwardingDatasetStore(store),
      uses_(make_uses(
          [this](absl::FunctionRef<void(const std::string&)> used) { CountReads(used); })) {
  LastUses* const alone = uses_.alone();
  if (alone == nullptr) return;
  // Sweep() asks again.
  ForAllListed(*store, &DatasetList::datasets, [alone](const DatasetInfo& info) {
    alone->Know(info.name);
  }).IgnoreError();
}

void RetainedDatasets::CountReads(absl::FunctionRef<void(const std::string&)> used) const {
  absl::MutexLock lock(&mutex_);
  std::erase_if(reads_, [&](const std::shared_ptr<Reads>& reads) {
    // Asked before: a reader may read once more and go.
    const bool is_gone = reads.use_count() == 1;
    if (reads->are_new.exchange(false, std::memory_order_relaxed)) used(reads->dataset);
    return is_gone;
  });
}

absl::Status RetainedDatasets::Sweep(std::vector<Expired>& expired) {
  return DeleteUnused(*store(), &DatasetList::datasets, uses_, expired);
}

absl::StatusOr<DatasetInfo> RetainedDatasets::Create(absl::string_view name,
                                                     const GraphSchema& schema,
                                                     const DatasetOptions& options) {
  auto created = store()->Create(name, schema, options);
  if (created.ok()) uses_.Add(std::string(name), created->id);
  return created;
}

absl::StatusOr<AppendResult> RetainedDatasets::AppendTo(
    const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  // Before, so that it is not deleted meanwhile.
  PH_RETURN_IF_ERROR(uses_.Use(target.name));
  return store()->AppendTo(target, chunk, group_ids, producer);
}

absl::StatusOr<DatasetInfo> RetainedDatasets::Seal(const Target& target) {
  PH_RETURN_IF_ERROR(uses_.Use(target.name));
  return store()->Seal(target);
}

absl::Status RetainedDatasets::Delete(const Target& target) {
  PH_RETURN_IF_ERROR(store()->Delete(target));
  uses_.Forget(target.name);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const DatasetReader>> RetainedDatasets::OpenReader(
    absl::string_view name) const {
  PH_RETURN_IF_ERROR(uses_.Use(name));
  PH_ASSIGN_OR_RETURN(auto reader, store()->OpenReader(name));
  return Retain(std::move(reader));
}

absl::StatusOr<std::shared_ptr<const DatasetChunks>> RetainedDatasets::OpenChunks(
    absl::string_view name) const {
  PH_RETURN_IF_ERROR(uses_.Use(name));
  PH_ASSIGN_OR_RETURN(auto chunks, store()->OpenChunks(name));
  return std::make_shared<const Chunks>(this, std::move(chunks));
}

std::shared_ptr<const DatasetReader> RetainedDatasets::Retain(
    std::shared_ptr<const DatasetReader> reader) const {
  auto reads = NewReads(reader->info().name);
  return std::make_shared<const Reader>(std::move(reader), std::move(reads));
}

std::shared_ptr<RetainedDatasets::Reads> RetainedDatasets::NewReads(std::string dataset) const {
  auto reads = std::make_shared<Reads>();
  reads->dataset = std::move(dataset);
  absl::MutexLock lock(&mutex_);
  // Those that have read something are still to be counted.
  std::erase_if(reads_, [](const std::shared_ptr<Reads>& each) {
    return each.use_count() == 1 && !each->are_new.load(std::memory_order_relaxed);
  });
  reads_.push_back(reads);
  return reads;
}

}  // namespace packhouse
