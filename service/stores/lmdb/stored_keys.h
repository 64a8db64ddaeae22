// Keys of the embedded store and of the logs of jobs; docs/storage-format.md has their grammar.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_STORED_KEYS_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_STORED_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace packhouse {

// A key is a letter, a big-endian number or two, or a name: LMDB orders keys by their bytes, so
// that names come in order and a data set's records in the order of their graphs.
std::string FormatKey();
std::string NameKey(absl::string_view name);
std::string StateKey(uint64_t dataset);
std::string RecordKey(uint64_t dataset, uint64_t first_graph);
std::string HistogramKeyOf(uint64_t dataset, uint64_t first_graph);
std::string ProducerKey(uint64_t dataset, absl::string_view producer);
std::string TombstoneKey(uint64_t dataset);
// The keys of the logs' format, and of what they have together; logs have an environment of their
// own. The head of a log is under NameKey(), its records are under RecordKey().
std::string LogFormatKey();
std::string LogTailKey();
// The prefix of all keys of a kind.
inline constexpr absl::string_view kNamePrefix = "n";
inline constexpr absl::string_view kStatePrefix = "s";
inline constexpr absl::string_view kRecordPrefix = "r";
inline constexpr absl::string_view kHistogramPrefix = "h";
inline constexpr absl::string_view kProducerPrefix = "p";
inline constexpr absl::string_view kTombstonePrefix = "x";
// The same of one data set.
std::string RecordPrefix(uint64_t dataset);
std::string HistogramPrefix(uint64_t dataset);
std::string ProducerPrefix(uint64_t dataset);
// The big-endian number in which a key of a record, a run, a state or a tombstone ends.
std::optional<uint64_t> NumberAtEnd(absl::string_view key);
// The one before it, in a key that has two.
std::optional<uint64_t> NumberBeforeEnd(absl::string_view key);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_STORED_KEYS_H_
