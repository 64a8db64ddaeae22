// Reads a data set from records in mapped files.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_RECORD_DATASET_READER_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_RECORD_DATASET_READER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/stores/datasets/chunk_record.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// A view of a record, and the graphs that should be in it.
struct StoredRecord {
  uint64_t number = 0;
  uint64_t first_graph = 0;
  uint64_t end_graph = 0;
  absl::string_view bytes = {};
  // The second number of the record's place (ChunkRecordPlace), where it is not its first graph.
  std::optional<uint64_t> tag = std::nullopt;
  // In the whole data set, if `first_graph` is in a part of it: for messages.
  std::optional<uint64_t> first_of_all = std::nullopt;
};

// What the store knows of a data set at one moment.
struct StoredDataset {
  uint64_t id = 0;
  DatasetInfo info;
  std::vector<StoredRecord> records;
  // Records with impossible keys; they are not in `records`.
  uint64_t num_stray_records = 0;

  // Adds the next record in the order of keys. Its graphs are deduced from its neighbours. Graphs
  // that no record has become a record without bytes. Call End() after the last.
  void Add(uint64_t first_graph, absl::string_view bytes);
  void End();

  // Adds the next record where it is known which graphs it has: from the end of the last one to
  // before `end_graph`. `bytes` is empty if the record is missing.
  void AddExact(uint64_t end_graph, uint64_t tag, absl::string_view bytes);

  // As if the data set had no others than these of its records, which ascend.
  StoredDataset Part(absl::Span<const uint32_t> numbers) const;

  // Header, place and sizes. DATA_LOSS or FAILED_PRECONDITION naming the data set, the record and
  // its graphs.
  absl::StatusOr<ChunkRecordView> View(const StoredRecord& record) const;
  // The status with the names of data set, record and graphs.
  absl::Status Named(const StoredRecord& record, const absl::Status& status) const;
};

// Keeps a decoded chunk of each record that was used: 8 * (l + 1) + 4 * l bytes for each graph, and
// some more if the ids are not consecutive. The rows stay in the map.
class RecordDatasetReader final : public DatasetReader {
 public:
  // `histogram`: the stored one, or nullopt if it cannot be read; then the sizes are counted when
  // somebody asks for it.
  // `owner` keeps the records where they are, and whatever `check_intact` uses, which becomes
  // CheckIntact(). O(n).
  RecordDatasetReader(StoredDataset dataset, std::optional<SizeHistogram> histogram,
                      std::function<absl::Status()> check_intact,
                      std::shared_ptr<const void> owner);

  const DatasetInfo& info() const override { return dataset_.info; }
  const SizeHistogram& histogram() const override;
  absl::Span<const uint32_t> counts() const override { return counts_; }
  absl::Span<const uint64_t> graph_ids() const override { return graph_ids_; }
  absl::Span<const uint64_t> group_ids() const override { return group_ids_; }
  absl::Span<const DamagedRecord> unreadable() const override { return unreadable_; }
  absl::StatusOr<StoredGraph> Graph(size_t i) const override;
  absl::Status CheckIntact() const override { return check_intact_(); }

 private:
  struct DecodedRecord {
    std::once_flag once;
    absl::Status status;
    std::optional<GraphChunk> chunk;
    // `chunk` once it is there. Avoids checking the flag, which costs more than the rest of a
    // lookup.
    std::atomic<const GraphChunk*> ready = nullptr;
  };

  // Number of the record with graph i.
  size_t RecordOf(size_t i) const;
  void Decode(const StoredRecord& record, DecodedRecord& decoded) const;

  // Constant after construction. The owner is first, so that it is destroyed last.
  const std::shared_ptr<const void> owner_;
  const std::function<absl::Status()> check_intact_;
  const StoredDataset dataset_;
  const bool has_stored_histogram_;
  std::vector<uint32_t> counts_;
  std::vector<uint64_t> graph_ids_;
  std::vector<uint64_t> group_ids_;
  std::vector<DamagedRecord> unreadable_;
  // For each block of 1 << block_shift_ graphs, the record with the first; then the last record.
  size_t block_shift_ = 0;
  std::vector<uint32_t> record_of_block_;

  // The stored one; otherwise guarded by the flag.
  mutable std::once_flag count_once_;
  mutable SizeHistogram histogram_;

  // One for each record; each is guarded by its flag.
  mutable std::vector<DecodedRecord> decoded_;
};

// A data set whose records are mapped all the time: each is a chunk.
class RecordDatasetChunks final : public DatasetChunks {
 public:
  // As RecordDatasetReader. O(records).
  RecordDatasetChunks(StoredDataset dataset, std::function<absl::Status()> check_intact,
                      std::shared_ptr<const void> owner);

  const DatasetInfo& info() const override { return dataset_.info; }
  absl::Span<const uint32_t> num_graphs() const override { return num_graphs_; }
  uint64_t bytes() const override;
  absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const override;
  absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> chunks) const override;

 private:
  const std::shared_ptr<const void> owner_;
  const std::function<absl::Status()> check_intact_;
  const StoredDataset dataset_;
  std::vector<uint32_t> num_graphs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_RECORD_DATASET_READER_H_
