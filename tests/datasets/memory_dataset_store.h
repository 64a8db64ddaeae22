// Data sets in memory: the slow, obvious reference that every durable store is held against.
#ifndef PACKHOUSE_TESTS_DATASETS_MEMORY_DATASET_STORE_H_
#define PACKHOUSE_TESTS_DATASETS_MEMORY_DATASET_STORE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Copies everything under one lock. A reader has its own copy of the list of chunks.
class MemoryDatasetStore final : public DatasetStore {
 public:
  explicit MemoryDatasetStore(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override {
    PH_RETURN_IF_ERROR(CheckDatasetName(name));
    PH_RETURN_IF_ERROR(CheckDatasetOptions(name, schema, options));
    absl::MutexLock lock(&mutex_);
    if (datasets_.contains(std::string(name))) return absl::AlreadyExistsError(name);
    auto dataset = std::make_shared<Dataset>(schema.num_components());
    dataset->info.name = std::string(name);
    dataset->info.schema = std::make_shared<const GraphSchema>(schema);
    dataset->info.options = options;
    dataset->info.version = ++last_version_;
    dataset->info.id = last_version_;
    datasets_[std::string(name)] = dataset;
    return dataset->info;
  }

  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override {
    const absl::string_view name = target.name;
    PH_RETURN_IF_ERROR(CheckChunk(name, chunk, group_ids));
    if (producer) PH_RETURN_IF_ERROR(CheckProducer(*producer));
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(name));
    DatasetInfo& info = dataset->info;
    PH_RETURN_IF_ERROR(CheckDatasetId(name, info.id, target.id));
    AppendResult result;
    result.num_graphs = info.num_graphs;
    uint32_t digest = 0;
    if (producer) {
      PH_ASSIGN_OR_RETURN(const EncodedChunk encoded, EncodedChunk::Create(&chunk, group_ids));
      digest = encoded.Digest(!producer->counts_ids);
      PH_ASSIGN_OR_RETURN(result.is_repetition, dataset->producers[producer->producer].IsRepetition(
                                                    name, *producer, digest));
      if (result.is_repetition) return result;
    }
    if (info.state == DatasetState::kSealed) return absl::FailedPreconditionError("sealed");
    PH_RETURN_IF_ERROR(CheckSameSchema(name, *info.schema, chunk.schema()));
    const size_t n = chunk.num_graphs();
    if (n != 0 && group_ids.empty() == info.options.grouped) {
      return absl::InvalidArgumentError("group ids");
    }
    uint64_t bytes = chunk.num_bytes() + n * sizeof(uint64_t);
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < info.options.max_counts.size(); ++k) {
        const uint32_t bound = info.options.max_counts[k];
        if (bound != 0 && chunk.count(i, k) > bound) {
          return absl::OutOfRangeError(absl::StrCat("graph ", chunk.sizes().graph_id(i)));
        }
      }
    }
    if ((info.options.max_bytes != 0 && info.num_bytes + bytes > info.options.max_bytes) ||
        num_bytes_ + bytes > max_bytes_) {
      return absl::ResourceExhaustedError("bytes");
    }
    if (producer) {
      dataset->producers[producer->producer].Add(*producer, digest, kRememberedSequences);
    }
    if (n == 0) return result;
    PH_RETURN_IF_ERROR(dataset->histogram.AddTable(chunk.sizes()));
    std::vector<std::string> columns;
    for (size_t t = 0; t < chunk.num_columns(); ++t) columns.emplace_back(chunk.column(t));
    auto owned = std::make_shared<const std::vector<std::string>>(std::move(columns));
    std::vector<absl::string_view> views(owned->begin(), owned->end());
    PH_ASSIGN_OR_RETURN(GraphChunk copy, GraphChunk::Create(info.schema.get(), chunk.sizes(),
                                                            std::move(views), owned));
    dataset->chunks.push_back(std::make_shared<const GraphChunk>(std::move(copy)));
    dataset->group_ids.insert(dataset->group_ids.end(), group_ids.begin(), group_ids.end());
    result.num_appended = n;
    result.first_graph = info.num_graphs;
    info.num_graphs += n;
    info.num_records += 1;
    info.num_bytes += bytes;
    num_bytes_ += bytes;
    result.num_graphs = info.num_graphs;
    return result;
  }

  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(target.name));
    PH_RETURN_IF_ERROR(CheckDatasetId(target.name, dataset->info.id, target.id));
    const auto found = dataset->producers.find(std::string(producer));
    return found == dataset->producers.end() ? ProducerHistory() : found->second;
  }

  absl::StatusOr<DatasetInfo> Seal(const Target& target) override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(target.name));
    PH_RETURN_IF_ERROR(CheckDatasetId(target.name, dataset->info.id, target.id));
    if (dataset->info.state == DatasetState::kOpen) dataset->info.version = ++last_version_;
    dataset->info.state = DatasetState::kSealed;
    return dataset->info;
  }

  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(name));
    return dataset->info;
  }

  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(name));
    return dataset->histogram;
  }

  absl::StatusOr<DatasetList> List(size_t page_size, absl::string_view page_token) const override {
    absl::MutexLock lock(&mutex_);
    if (!page_token.empty()) PH_RETURN_IF_ERROR(CheckDatasetName(page_token));
    const size_t bound = page_size == 0 ? kDefaultPageSize : std::min(page_size, kMaxPageSize);
    DatasetList list;
    for (auto it = datasets_.upper_bound(std::string(page_token)); it != datasets_.end(); ++it) {
      if (list.datasets.size() == bound) {
        list.next_page_token = list.datasets.back().name;
        break;
      }
      list.datasets.push_back(it->second->info);
    }
    return list;
  }

  absl::Status Delete(const Target& target) override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(target.name));
    PH_RETURN_IF_ERROR(CheckDatasetId(target.name, dataset->info.id, target.id));
    num_bytes_ -= dataset->info.num_bytes;
    datasets_.erase(std::string(target.name));
    return absl::OkStatus();
  }

  absl::StatusOr<VerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const VerifyProgress&)> progress) const override {
    PH_ASSIGN_OR_RETURN(const DatasetInfo info, Get(name));
    VerifyReport report;
    VerifyProgress done = {0, info.num_records, 0, info.num_bytes};
    while (report.num_records < info.num_records) {
      done.num_records = ++report.num_records;
      if (!progress(done)) return absl::CancelledError(name);
    }
    report.num_graphs = info.num_graphs;
    report.num_bytes = info.num_bytes;
    return report;
  }

  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(name));
    return std::make_shared<const Reader>(*dataset, is_damaged_);
  }

  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    PH_ASSIGN_OR_RETURN(const std::shared_ptr<Dataset> dataset, Find(name));
    PH_RETURN_IF_ERROR(CheckSealed(dataset->info));
    return std::make_shared<const Chunks>(*dataset, this);
  }
  // Before chunks are opened, which its error refuses. Set it while nobody opens any.
  std::function<absl::Status()> before_open_chunks = [] { return absl::OkStatus(); };
  // From now on no reader reads a graph: DATA_LOSS.
  void DamageGraphs() { *is_damaged_ = true; }
  // How often the sizes of a chunk were read.
  uint64_t num_counted() const { return num_counted_; }

 private:
  struct Dataset {
    explicit Dataset(size_t num_components) : histogram(num_components) {}

    DatasetInfo info;
    SizeHistogram histogram;
    std::vector<std::shared_ptr<const GraphChunk>> chunks;
    std::vector<uint64_t> group_ids;
    std::map<std::string, ProducerHistory> producers;
  };

  class Reader final : public DatasetReader {
   public:
    Reader(Dataset dataset, std::shared_ptr<const std::atomic<bool>> is_damaged)
        : dataset_(std::move(dataset)), is_damaged_(std::move(is_damaged)) {
      for (const auto& chunk : dataset_.chunks) {
        for (size_t i = 0; i < chunk->num_graphs(); ++i) {
          const auto tuple = chunk->sizes().tuple(i);
          counts_.insert(counts_.end(), tuple.begin(), tuple.end());
          graph_ids_.push_back(chunk->sizes().graph_id(i));
          graphs_.push_back({chunk.get(), i});
        }
      }
    }
    const DatasetInfo& info() const override { return dataset_.info; }
    const SizeHistogram& histogram() const override { return dataset_.histogram; }
    absl::Span<const uint32_t> counts() const override { return counts_; }
    absl::Span<const uint64_t> graph_ids() const override { return graph_ids_; }
    absl::Span<const uint64_t> group_ids() const override { return dataset_.group_ids; }
    absl::Span<const DamagedRecord> unreadable() const override { return {}; }
    absl::StatusOr<StoredGraph> Graph(size_t i) const override {
      if (i >= graphs_.size()) return absl::OutOfRangeError(absl::StrCat("graph ", i));
      if (*is_damaged_) return absl::DataLossError(absl::StrCat("graph ", i, " is damaged"));
      return graphs_[i];
    }

   private:
    Dataset dataset_;
    const std::shared_ptr<const std::atomic<bool>> is_damaged_;
    std::vector<uint32_t> counts_;
    std::vector<uint64_t> graph_ids_;
    std::vector<StoredGraph> graphs_;
  };

  class Chunks final : public DatasetChunks {
   public:
    Chunks(Dataset dataset, const MemoryDatasetStore* store)
        : dataset_(std::move(dataset)), store_(store) {
      for (const auto& chunk : dataset_.chunks) {
        num_graphs_.push_back(static_cast<uint32_t>(chunk->num_graphs()));
      }
    }
    const DatasetInfo& info() const override { return dataset_.info; }
    absl::Span<const uint32_t> num_graphs() const override { return num_graphs_; }
    uint64_t bytes() const override { return sizeof(uint32_t) * num_graphs_.size(); }
    absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override {
      ++store_->num_counted_;
      return histogram.AddTable(dataset_.chunks[chunk]->sizes());
    }
    absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
        absl::Span<const uint32_t> chunks) const override {
      PH_RETURN_IF_ERROR(store_->before_open_chunks());
      Dataset part(dataset_.info.schema->num_components());
      part.info = dataset_.info;
      part.info.num_graphs = 0;
      for (const uint32_t chunk : chunks) {
        part.chunks.push_back(dataset_.chunks[chunk]);
        part.info.num_graphs += num_graphs_[chunk];
      }
      part.info.num_records = chunks.size();
      return std::make_shared<const Reader>(std::move(part), store_->is_damaged_);
    }

   private:
    const Dataset dataset_;
    const MemoryDatasetStore* const store_;
    std::vector<uint32_t> num_graphs_;
  };

  absl::StatusOr<std::shared_ptr<Dataset>> Find(absl::string_view name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto found = datasets_.find(std::string(name));
    if (found == datasets_.end()) return absl::NotFoundError(name);
    return found->second;
  }

  const uint64_t max_bytes_;
  const std::shared_ptr<std::atomic<bool>> is_damaged_ = std::make_shared<std::atomic<bool>>();
  mutable std::atomic<uint64_t> num_counted_ = 0;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<Dataset>> datasets_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_version_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_DATASETS_MEMORY_DATASET_STORE_H_
