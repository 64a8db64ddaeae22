// Records as values of a store that takes small values only.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_LOG_ENTRIES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_LOG_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace packhouse {

// An entry's value is the CRC32C of its content (4 bytes, little-endian), and the content. The
// contents of a log's entries, one after the other, are its records, each after its number of bytes
// (4 bytes, little-endian); a record may go on in the next entry.
constexpr size_t kMaxEntryBytes = size_t{1} << 20;
constexpr size_t kMaxContentBytes = kMaxEntryBytes - 4;

// Adds the record, as it is in the contents. Its size must be below 2^32.
void AddFramed(absl::string_view record, std::string& contents);

// At least one entry unless `contents` is empty, each of at most kMaxEntryBytes.
std::vector<std::string> CutIntoEntries(absl::string_view contents);

// Takes entries in order and gives records.
class EntryReader {
 public:
  // DATA_LOSS if the value fails its checksum.
  absl::Status Add(absl::string_view value);
  // DATA_LOSS if the last record is cut off.
  absl::StatusOr<std::vector<std::string>> Finish();

 private:
  std::string rest_;
  std::vector<std::string> records_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_JOBS_LOG_ENTRIES_H_
