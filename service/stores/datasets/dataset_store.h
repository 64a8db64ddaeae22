// Durable data sets: graphs under a name, appended by many producers, sealed, then read many times.
//
// Start here: DatasetStore is the interface that the service uses; LmdbDatasetStore is the embedded
// implementation. tests/datasets/dataset_store_test.cc states the laws that every implementation
// keeps.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_DATASET_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/producer.h"

namespace packhouse {

enum class DatasetState {
  kOpen,     // Takes graphs.
  kSealed,   // Never changes again.
  kDamaged,  // Its own description fails its checksum. Only List() has this state, with the name
             // alone.
};

// The options of a new data set; they cannot be changed later.
struct DatasetOptions {
  // Bytes that the data set may take on disk. 0: only the store's bound.
  uint64_t max_bytes = 0;
  // The largest count of one graph in each component; 0: no limit in that component. Empty: no
  // limits.
  std::vector<uint32_t> max_counts;
  // Whether every graph has a group id. If true, an append without group ids is refused; if false,
  // an append with them.
  bool grouped = false;
};

struct DatasetInfo {
  std::string name;
  // Null only if the state is kDamaged.
  std::shared_ptr<const GraphSchema> schema;
  DatasetOptions options;
  DatasetState state = DatasetState::kOpen;
  uint64_t num_graphs = 0;
  uint64_t num_records = 0;  // One for each append that had graphs.
  uint64_t num_bytes = 0;    // Taken on disk by the records.
  // A random number, never 0, drawn anew when the data set is created and when it is sealed. Two
  // sealed data sets with the same version have the same graphs in the same order. A data set that
  // was deleted and created again under its old name has another version.
  uint64_t version = 0;
  // A random number, never 0, drawn when the data set is created, and kept until it is deleted. It
  // tells two data sets apart that had the same name one after the other.
  uint64_t id = 0;
};

struct DatasetList {
  std::vector<DatasetInfo> datasets;
  // The beginning of the next page; empty if there is none.
  std::string next_page_token;
};

struct AppendResult {
  // 0 for a repetition.
  uint64_t num_appended = 0;
  // The place of the chunk's first graph in the data set; its other graphs follow. 0 for a
  // repetition.
  uint64_t first_graph = 0;
  // (producer, sequence) had been appended before: nothing happened.
  bool is_repetition = false;
  // Graphs in the data set, with this append.
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
  // Disagreements between readable pieces: counts, or the histogram, with the records.
  std::vector<absl::Status> disagreements;

  bool ok() const { return num_damaged == 0 && disagreements.empty(); }
};

// A view of one graph: graph `index` of `chunk`.
struct StoredGraph {
  const GraphChunk* chunk;
  size_t index;
};

// A data set as it was when the reader was opened; appends, seal and deletion do not change it.
// Immutable as seen from outside; thread-safe. Keeps the data set's bytes in the store: the space
// of a deleted data set is free when its last reader is destroyed.
class DatasetReader {
 public:
  virtual ~DatasetReader() = default;

  virtual const DatasetInfo& info() const = 0;
  // The sizes of all graphs that info() counts. The first call may count them all, where the store
  // keeps no histogram.
  virtual const SizeHistogram& histogram() const = 0;

  // Counts of all graphs in data set order, row-major, n * l. Graphs in unreadable() records have
  // zeros: check unreadable() before you pack any of them.
  virtual absl::Span<const uint32_t> counts() const = 0;
  // The n ids that the producers gave. They are unique within an append. A data set may have an id
  // twice; the id then means both graphs. A graph's identity is its place in the data set.
  virtual absl::Span<const uint64_t> graph_ids() const = 0;
  // n, or empty if the data set is not grouped.
  virtual absl::Span<const uint64_t> group_ids() const = 0;
  // Records whose sizes could not be read when the reader was opened, ascending.
  virtual absl::Span<const DamagedRecord> unreadable() const = 0;

  // Graph i in data set order, 0 <= i < n (OUT_OF_RANGE). The chunk lives as long as the reader.
  // The first access to a record checks its checksum; later ones are O(log records). DATA_LOSS
  // naming the data set, the record and its graphs; other records can still be read.
  virtual absl::StatusOr<StoredGraph> Graph(size_t i) const = 0;

  // DATA_LOSS once the store has lost the file that it reads from, for example because it was
  // removed or cut off: rows may have read as zeros since. Call it after copying rows, before the
  // copy is used. O(1); a store on a disk checks its file.
  virtual absl::Status CheckIntact() const { return absl::OkStatus(); }

  size_t num_graphs() const { return info().num_graphs; }
};

// The sizes of the graphs of some chunks, one chunk after the other. Thread-compatible. What it was
// made of must outlive it.
class ChunkSizes {
 public:
  virtual ~ChunkSizes() = default;
  // At most the bytes that it takes, from the first AddNext() on.
  virtual uint64_t bytes() const = 0;
  // Adds the sizes of the next chunk's graphs, of which there must be one; errors as
  // DatasetChunks::AddSizes. After an error there is no next one.
  virtual absl::Status AddNext(SizeHistogram& histogram) = 0;
};

// A sealed data set in pieces, for who cannot have all of it in memory. Chunks are numbered in data
// set order; each has graphs that were appended together, or one after the other. Immutable as seen
// from outside; thread-safe. Keeps the data set's bytes in the store.
class DatasetChunks {
 public:
  virtual ~DatasetChunks() = default;

  virtual const DatasetInfo& info() const = 0;
  // Graphs of each chunk.
  virtual absl::Span<const uint32_t> num_graphs() const = 0;
  // Some bytes for each chunk.
  virtual uint64_t bytes() const = 0;
  // Adds the sizes of a chunk's graphs, without reading the graphs. DATA_LOSS naming the record.
  virtual absl::Status AddSizes(uint32_t chunk, SizeHistogram& histogram) const = 0;
  // The same of several chunks, in the given order. A store that waits for the network for each
  // reads ahead. `chunks` must outlive what is returned.
  virtual std::unique_ptr<ChunkSizes> ReadSizes(absl::Span<const uint32_t> chunks) const;
  // A reader of the data set as if it had these chunks only, whose numbers ascend. Its histogram is
  // empty. Errors and cost as DatasetStore::OpenReader; it may wait for the network.
  virtual absl::StatusOr<std::shared_ptr<const DatasetReader>> Open(
      absl::Span<const uint32_t> chunks) const = 0;
  // OK unless Open() of these chunks could never work, since what the store can have at hand is
  // bounded: RESOURCE_EXHAUSTED with their bytes and the bound. Does not wait.
  virtual absl::Status CheckFits(absl::Span<const uint32_t> /*chunks*/) const {
    return absl::OkStatus();
  }
};

// Thread-safe. A change that is answered with OK is durable. A change that is answered with an
// error has not happened (unless the disk itself failed). Errors besides those named at each
// function:
// - RESOURCE_EXHAUSTED if the disk, the quota or a bound is full; names which, the value and the
//   bound. Nothing that was acknowledged is lost, and the same call succeeds once there is space
//   again.
// - UNAVAILABLE if the file system is read-only or fails to write; reads go on.
// - DATA_LOSS naming what fails its checksum. Also, for all calls from then on, if the store's own
//   file was removed, replaced or cut off; names the file.
class DatasetStore {
 public:
  static constexpr size_t kMaxNameLength = 128;
  // Per data set: named ones, and those whose names were made up for one call.
  static constexpr size_t kMaxProducers = 4096;
  static constexpr size_t kMaxMadeUpProducers = size_t{1} << 16;
  // Of each producer. A client that sends again what was not answered goes back by less.
  static constexpr size_t kRememberedSequences = 256;
  static constexpr size_t kDefaultPageSize = 100;
  static constexpr size_t kMaxPageSize = 1000;

  virtual ~DatasetStore() = default;

  // INVALID_ARGUMENT for a bad name or options. ALREADY_EXISTS.
  virtual absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                             const DatasetOptions& options) = 0;

  // A data set by its name and, unless 0, its id.
  struct Target {
    // NOLINTBEGIN(google-explicit-constructor)
    template <typename Name>
    requires std::is_convertible_v<const Name&, absl::string_view> Target(const Name& of_name,
                                                                          uint64_t of_id = 0)
        : name(of_name), id(of_id) {}
    // NOLINTEND(google-explicit-constructor)

    absl::string_view name;
    uint64_t id = 0;
  };

  // Appends all graphs of a chunk, in order and next to each other, as one record; blocks until
  // they are durable. `group_ids`: one for each graph, or empty. With a producer, an append is a
  // repetition if its producer has appended the same graphs under the same sequence
  // (ProducerHistory, which remembers kRememberedSequences numbers). A repetition is OK, even if
  // the data set has been sealed meanwhile. A producer whose name was made up for one call
  // (ProducerSequence::forget_after) is forgotten when its time is over, or later.
  //
  // A record takes whole pages of the disk, so chunks should have some hundred kilobytes or more.
  //
  // NOT_FOUND; FAILED_PRECONDITION if sealed or the chunk has another schema; INVALID_ARGUMENT for
  // a bad producer, group ids that disagree, a chunk without rows or above 1 GiB or 2^24 graphs;
  // OUT_OF_RANGE naming the graph that exceeds a max_count; ALREADY_EXISTS as
  // ProducerHistory::IsRepetition(); RESOURCE_EXHAUSTED also if there are kMaxProducers named
  // producers, or kMaxMadeUpProducers others whose time is not over.
  absl::StatusOr<AppendResult> Append(absl::string_view name, const GraphChunk& chunk,
                                      absl::Span<const uint64_t> group_ids,
                                      const std::optional<ProducerSequence>& producer) {
    return AppendTo({name, 0}, chunk, group_ids, producer);
  }

  // The same, with NOT_FOUND also if another data set has this name by now: a late chunk must not
  // get into a newer data set.
  virtual absl::StatusOr<AppendResult> AppendTo(
      const Target& target, const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
      const std::optional<ProducerSequence>& producer) = 0;

  // What is remembered of a producer; an empty history if nothing is. NOT_FOUND as AppendTo().
  virtual absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                                      absl::string_view producer) const = 0;

  // From now on the data set never changes. Sealing again changes nothing. NOT_FOUND as AppendTo():
  // what seals a data set that it has made must not seal a newer one.
  virtual absl::StatusOr<DatasetInfo> Seal(const Target& target) = 0;

  // NOT_FOUND.
  virtual absl::StatusOr<DatasetInfo> Get(absl::string_view name) const = 0;

  // Sizes of all graphs of a data set. NOT_FOUND. O(d).
  virtual absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const = 0;

  // The same. `reserve` is called before memory is allocated, with at least the bytes that the
  // histogram takes, at most about twice as many; its errors are returned. A store that cannot tell
  // how many sizes there are calls it when it has read them.
  virtual absl::StatusOr<SizeHistogram> GetReservedHistogram(
      absl::string_view name, absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const;

  // Data sets in ascending order of names, those after `page_token`. `page_size` 0 is
  // kDefaultPageSize; a number above kMaxPageSize counts as kMaxPageSize. A data set that exists
  // throughout is listed once, even if others are created and deleted meanwhile. INVALID_ARGUMENT
  // for a token that no page gave.
  virtual absl::StatusOr<DatasetList> List(size_t page_size,
                                           absl::string_view page_token) const = 0;

  // Frees the name at once. The space is given back after the last reader has gone, and counts
  // until then. This call and the end of a reader wait for at most one small write. NOT_FOUND as
  // AppendTo().
  virtual absl::Status Delete(const Target& target) = 0;

  // Reads everything: every checksum, the values of index tensors, the histogram and the counts
  // against the records. `progress` is called after each record; if it returns false, the check
  // ends with CANCELLED. An error means that the check could not be made. Findings are in the
  // report, also if the store has lost its file meanwhile. NOT_FOUND.
  virtual absl::StatusOr<VerifyReport> Verify(
      absl::string_view name, absl::FunctionRef<bool(const VerifyProgress&)> progress) const = 0;

  // O(n) time and memory: l * 4 + 8 bytes for each graph, 8 more if grouped; about as much again
  // for each graph whose record has been used. NOT_FOUND.
  virtual absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const = 0;

  // O(records) memory, some hundred bytes for each. NOT_FOUND; FAILED_PRECONDITION if the data set
  // is not sealed; UNIMPLEMENTED by a store that reads data sets only as a whole.
  virtual absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const;
};

// Checks that all implementations share. Error: INVALID_ARGUMENT.
absl::Status CheckDatasetName(absl::string_view name);
// FAILED_PRECONDITION unless it is.
absl::Status CheckSealed(const DatasetInfo& info);
// NOT_FOUND unless `id`, that of the data set of this name, equals `asked_for`; `asked_for` 0 means
// any.
absl::Status CheckDatasetId(absl::string_view name, uint64_t id, uint64_t asked_for);
absl::Status CheckDatasetOptions(absl::string_view name, const GraphSchema& schema,
                                 const DatasetOptions& options);
// Checks that all group ids and rows are there.
absl::Status CheckChunk(absl::string_view name, const GraphChunk& chunk,
                        absl::Span<const uint64_t> group_ids);

// FAILED_PRECONDITION naming the first component or tensor that differs; OK if none does.
absl::Status CheckSameSchema(absl::string_view name, const GraphSchema& stored,
                             const GraphSchema& given);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_DATASET_STORE_H_
