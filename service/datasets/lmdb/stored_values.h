// Keys and small values of the embedded store and of the record log; docs/storage-format.md has
// their grammar. What the graphs themselves are stored as is in chunk_record.h.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_STORED_VALUES_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_STORED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/datasets/dataset_store.h"
#include "service/graphs/graph_schema.h"
#include "service/histograms/size_histogram.h"

namespace packhouse {

inline constexpr uint32_t kStoreFormatVersion = 1;
inline constexpr uint32_t kLogFormatVersion = 1;

// A key is a letter, a big-endian number or two, or a name: LMDB orders keys by their bytes, so
// that names come in order and a data set's records in the order of their graphs.
std::string FormatKey();
std::string NameKey(absl::string_view name);
std::string StateKey(uint64_t dataset);
std::string RecordKey(uint64_t dataset, uint64_t first_graph);
std::string HistogramKeyOf(uint64_t dataset, uint64_t first_graph);
std::string ProducerKey(uint64_t dataset, absl::string_view producer);
std::string TombstoneKey(uint64_t dataset);
// Of a record log, which has an environment of its own.
std::string LogFormatKey();
std::string LogBeginKey();
std::string LogRecordKey(uint64_t sequence);
// What all keys of a kind begin with.
std::string RecordPrefix(uint64_t dataset);
std::string HistogramPrefix(uint64_t dataset);
std::string ProducerPrefix(uint64_t dataset);
inline constexpr absl::string_view kNamePrefix = "n";
inline constexpr absl::string_view kStatePrefix = "s";
inline constexpr absl::string_view kTombstonePrefix = "x";
// The big-endian number in which a key of a record, a run, a state or a tombstone ends.
std::optional<uint64_t> NumberAtEnd(absl::string_view key);

// Every small value ends in the CRC32C of its key and itself, so that a value under another's key
// is noticed too. CheckedPayload() is the value without it, or DATA_LOSS.
inline constexpr size_t kChecksumBytes = sizeof(uint32_t);
std::string WithChecksum(absl::string_view key, std::string payload);
absl::StatusOr<absl::string_view> CheckedPayload(absl::string_view key, absl::string_view value);

// Equal schemas have equal encodings.
std::string EncodeSchema(const GraphSchema& schema);
absl::StatusOr<GraphSchema> DecodeSchema(absl::string_view bytes);

// What a data set is created with.
struct StoredDefinition {
  uint64_t dataset = 0;  // Its number, which may be used again after a deletion.
  uint64_t id = 0;       // Which is not.
  DatasetOptions options;
  std::string schema;  // EncodeSchema().
};
std::string EncodeDefinition(const StoredDefinition& definition);
absl::StatusOr<StoredDefinition> DecodeDefinition(absl::string_view payload);

// What changes with each append.
struct StoredState {
  bool sealed = false;
  uint64_t version = 0;
  uint64_t num_graphs = 0;
  uint64_t num_records = 0;
  uint64_t num_bytes = 0;
  uint64_t num_producers = 0;
  // Distinct sizes in the histogram's first run, and in all later ones together.
  uint64_t base_run_sizes = 0;
  uint64_t later_run_sizes = 0;
  std::vector<uint64_t> totals;  // Per component.
};
std::string EncodeState(const StoredState& state);
absl::StatusOr<StoredState> DecodeState(absl::string_view payload);

// A run: sizes in ascending order with their counts.
std::string EncodeRun(const SizeHistogram& histogram);
// Adds a run. DATA_LOSS if it has not the histogram's number of components.
absl::Status AddRun(absl::string_view payload, SizeHistogram& histogram);

std::string EncodeNumber(uint64_t number);
absl::StatusOr<uint64_t> DecodeNumber(absl::string_view payload);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_STORED_VALUES_H_
