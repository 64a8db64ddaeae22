// Reads a record log that is damaged, and writes it anew.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_LMDB_LOG_REPAIR_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_LMDB_LOG_REPAIR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/engine/jobs/ledger_repair.h"

namespace packhouse {

struct FoundLog {
  // In ascending order of sequence numbers, without a gap: a missing record is one without bytes.
  std::vector<FoundRecord> records;
  // What is wrong beside the records: the format, the beginning, keys that are none.
  std::vector<std::string> disorder;
  // As StoreFormat::identity.
  uint64_t identity = 0;
  // No sequence number from here on was used.
  uint64_t next_sequence = 1;
};

// Reads what is there of a log; nothing if its file is missing or empty: who knows that it must be
// there has to say so. A record in which
// one bit has flipped is mended: no two bits that can flip give the same difference of checksums. A
// record under a damaged key is found by its checksum.
//
// FAILED_PRECONDITION if the folder is open, naming the process, or has another format; DATA_LOSS
// if its page structure is damaged. O(bytes) for a sound log; for a damaged record 8 times that.
absl::StatusOr<FoundLog> ReadDamagedLog(const std::string& folder);

// Replaces everything in the folder by a log with these records, in one transaction: after a crash
// the folder is as it was, or has them. Errors as LmdbRecordLog::Open().
absl::Status RewriteLog(const std::string& folder, uint64_t next_sequence,
                        absl::Span<const std::string> records);

// Puts the one flipped bit right in a value that fails the CRC32C of its key and payload. False,
// and nothing changes, if it was not one bit. O(bytes).
bool MendOneBit(absl::string_view key, std::string& raw_value);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_LMDB_LOG_REPAIR_H_
