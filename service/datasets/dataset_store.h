// Durable data sets: graphs under a name, appended by many producers, sealed, then read many times.
//
// Start here: DatasetStore is what the rest of the service knows; LmdbDatasetStore is the embedded
// implementation. tests/datasets/dataset_store_test.cc states the laws that every one must keep.
#ifndef PACKHOUSE_SERVICE_DATASETS_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_DATASETS_DATASET_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/graphs/graph_chunk.h"
#include "service/graphs/graph_schema.h"
#include "service/histograms/histogram_store.h"
#include "service/histograms/size_histogram.h"

namespace packhouse {

enum class DatasetState {
  kOpen,     // Takes graphs.
  kSealed,   // Never changes again.
  kDamaged,  // Its own description fails its checksum; only List() says so, with the name alone.
};

// What a data set is created with; it cannot be changed later.
struct DatasetOptions {
  // Bytes the data set may take on disk. 0: no bound of its own, only the store's.
  uint64_t max_bytes = 0;
  // Largest count of one graph, per component; 0 is no limit in that component. Empty: no limits.
  std::vector<uint32_t> max_counts;
  // Whether every graph has a group id. With true, an append without them is refused; with false,
  // one with them.
  bool grouped = false;
};

struct DatasetInfo {
  std::string name;
  // Never null, but for kDamaged.
  std::shared_ptr<const GraphSchema> schema;
  DatasetOptions options;
  DatasetState state = DatasetState::kOpen;
  uint64_t num_graphs = 0;
  uint64_t num_records = 0;  // One for each append that had graphs.
  uint64_t num_bytes = 0;    // Taken on disk by the records.
  // Never 0. Drawn anew when the data set is created and when it is sealed: two sealed data sets of
  // one version have the same graphs in the same order, and a data set that was deleted and made
  // again under its old name differs.
  uint64_t version = 0;
  // Never 0. Drawn when the data set is created, the same until it is deleted: tells it from
  // another one that was made under its name before or after.
  uint64_t id = 0;
};

struct DatasetList {
  std::vector<DatasetInfo> datasets;
  // Where the next page begins; empty if there is none.
  std::string next_page_token;
};

struct AppendResult {
  // 0 for a repetition.
  uint64_t num_appended = 0;
  // Where the chunk's first graph is in the data set; its others follow. 0 for a repetition.
  uint64_t first_graph = 0;
  // (producer, sequence) had been appended before: nothing happened.
  bool is_repetition = false;
  // In the data set, with this append.
  uint64_t num_graphs = 0;
};

// A stored record that cannot be read, and the graphs that are lost with it.
struct DamagedRecord {
  uint64_t record = 0;  // Records are numbered from 0 in data set order.
  uint64_t first_graph = 0;
  uint64_t num_graphs = 0;
  absl::Status status;  // DATA_LOSS.
};

struct VerifyProgress {
  uint64_t num_records = 0;
  uint64_t num_records_total = 0;
  uint64_t num_bytes = 0;
  uint64_t num_bytes_total = 0;
};

struct VerifyReport {
  static constexpr size_t kMaxListed = 1000;

  uint64_t num_records = 0;
  uint64_t num_graphs = 0;
  uint64_t num_bytes = 0;
  uint64_t num_damaged = 0;
  // The first kMaxListed of them.
  std::vector<DamagedRecord> damaged;
  // What disagrees though each piece may be readable: counts, the histogram with the records.
  std::vector<absl::Status> disagreements;

  bool ok() const { return num_damaged == 0 && disagreements.empty(); }
};

// One graph where it lies: graph `index` of `chunk`.
struct StoredGraph {
  const GraphChunk* chunk;
  size_t index;
};

// A data set as it was when the reader was opened; appends, seal and deletion do not touch it.
// Immutable as seen from outside; thread-safe. Holds the data set's bytes in the store: the space
// of a deleted one comes back when its last reader goes.
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;

  virtual const DatasetInfo& info() const = 0;
  // Of all graphs that info() counts.
  virtual const SizeHistogram& histogram() const = 0;

  // Counts of all graphs in data set order, row-major, n * l. Graphs in unreadable() records have
  // zeros: look there before any of them is packed.
  virtual absl::Span<const uint32_t> counts() const = 0;
  // As the producers gave them, n. Unique within an append; a data set may hold an id twice, and
  // then both graphs are meant by it. A graph's identity is its place in the data set.
  virtual absl::Span<const uint64_t> graph_ids() const = 0;
  // n, or empty if the data set is not grouped.
  virtual absl::Span<const uint64_t> group_ids() const = 0;
  // Records whose sizes could not be read when the reader was opened, ascending.
  virtual absl::Span<const DamagedRecord> unreadable() const = 0;

  // Graph i in data set order, 0 <= i < n (OUT_OF_RANGE). The chunk lives as long as the reader.
  // The first access to a record checks its checksum; later ones are O(log records).
  // DATA_LOSS naming the data set, the record and its graphs; the other records stay served.
  virtual absl::StatusOr<StoredGraph> Graph(size_t i) const = 0;

  // DATA_LOSS once the store has lost what it reads from, as when its file was removed or cut off:
  // rows may have read as zeros since. To be asked when rows have been copied, before the copy goes
  // anywhere. O(1); a store on a disk looks at its file.
  virtual absl::Status CheckIntact() const { return absl::OkStatus(); }

  size_t num_graphs() const { return info().num_graphs; }
};

// Thread-safe. What an OK answers is durable. Besides the errors named at each function:
// RESOURCE_EXHAUSTED if the disk, the quota or a bound is full, naming which, the value and the
// bound: nothing that was acknowledged is lost, and once there is space again the same call goes
// through. UNAVAILABLE if the file system is read-only or fails to write: reads go on. DATA_LOSS
// naming what fails its checksum, or, for all calls from then on, the store's own file if it was
// removed, replaced or cut off. With an error, nothing happened (unless the disk itself failed).
class DatasetStore {
 public:
  static constexpr size_t kMaxNameLength = 128;
  static constexpr size_t kMaxProducers = 4096;  // Per data set.
  static constexpr size_t kDefaultPageSize = 100;
  static constexpr size_t kMaxPageSize = 1000;

  virtual ~DatasetStore() = default;

  // INVALID_ARGUMENT for a bad name or options. ALREADY_EXISTS.
  virtual absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                             const DatasetOptions& options) = 0;

  // Appends all graphs of a chunk, in order and next to each other, as one record; blocks until
  // they are durable. `group_ids`: one per graph, or empty. With a producer, what has a sequence
  // not above the largest appended for it is a repetition, and OK, even if sealed meanwhile.
  //
  // A record takes whole pages of the disk: chunks should have some hundred kilobytes or more.
  //
  // NOT_FOUND; FAILED_PRECONDITION if sealed or the chunk has another schema; INVALID_ARGUMENT for
  // a bad producer, group ids that disagree, a chunk without rows or above 1 GiB or 2^24 graphs;
  // OUT_OF_RANGE naming the graph that exceeds a max_count.
  absl::StatusOr<AppendResult> Append(absl::string_view name, const GraphChunk& chunk,
                                      absl::Span<const uint64_t> group_ids,
                                      const std::optional<ProducerSequence>& producer) {
    return AppendTo({name, 0}, chunk, group_ids, producer);
  }

  // A data set by its name and, unless 0, its id.
  struct Target {
    absl::string_view name;
    uint64_t id = 0;
  };
  // The same, but NOT_FOUND if the data set of this name is another one by now: a chunk that comes
  // late must not get into a data set that was made anew.
  virtual absl::StatusOr<AppendResult> AppendTo(
      const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
      const std::optional<ProducerSequence>& producer) = 0;

  // From now on the data set never changes. Sealing again changes nothing. NOT_FOUND.
  virtual absl::StatusOr<DatasetInfo> Seal(absl::string_view name) = 0;

  // NOT_FOUND.
  virtual absl::StatusOr<DatasetInfo> Get(absl::string_view name) const = 0;

  // Sizes of all graphs of a data set. NOT_FOUND. O(d).
  virtual absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const = 0;

  // Data sets in ascending order of names, those after `page_token`. `page_size` 0 is
  // kDefaultPageSize; more than kMaxPageSize is kMaxPageSize. A data set that is there throughout
  // is listed once, whatever comes and goes meanwhile. INVALID_ARGUMENT for a token that no page
  // gave.
  virtual absl::StatusOr<DatasetList> List(size_t page_size,
                                           absl::string_view page_token) const = 0;

  // The name is free at once; the space comes back after the last reader has gone, and is counted
  // until then. Neither this nor the end of a reader waits for more than one small write.
  // NOT_FOUND.
  virtual absl::Status Delete(absl::string_view name) = 0;

  // Reads everything: every checksum, the values of index tensors, the histogram and the counts
  // against the records. `progress` is called after each record; with false the check ends with
  // CANCELLED. An error only if the check could not be made; findings are in the report, also that
  // the store has lost its file meanwhile. NOT_FOUND.
  virtual absl::StatusOr<VerifyReport> Verify(
      absl::string_view name, absl::FunctionRef<bool(const VerifyProgress&)> progress) const = 0;

  // O(n) time and memory: l * 4 + 8 bytes a graph, 8 more if grouped; about as much again for
  // each graph whose record has been used. NOT_FOUND.
  virtual absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const = 0;
};

// What every implementation checks alike; INVALID_ARGUMENT.
absl::Status CheckDatasetName(absl::string_view name);
// NOT_FOUND unless the data set of this name, which has `id`, is the one asked for; 0 asks for any.
absl::Status CheckDatasetId(absl::string_view name, uint64_t id, uint64_t asked_for);
absl::Status CheckDatasetOptions(absl::string_view name, const GraphSchema& schema,
                                 const DatasetOptions& options);
absl::Status CheckProducer(const ProducerSequence& producer);
// Group ids and rows are all there.
absl::Status CheckChunk(absl::string_view name, const GraphChunk& chunk,
                        absl::Span<const uint64_t> group_ids);

// FAILED_PRECONDITION naming the first component or tensor that differs; OK if none does.
absl::Status CheckSameSchema(absl::string_view name, const GraphSchema& stored,
                             const GraphSchema& given);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_DATASET_STORE_H_
