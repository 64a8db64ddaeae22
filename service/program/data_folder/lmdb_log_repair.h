// Reads logs of jobs that are damaged, and writes them anew.
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
#include "service/stores/logs/lmdb_job_logs.h"

namespace packhouse {

// The log of one job.
struct FoundLog {
  std::string job;
  // LmdbLogHead::number.
  uint64_t number = 0;
  // In ascending order of sequence numbers, without a gap: a missing record is one without bytes.
  std::vector<FoundRecord> records;
  // No sequence number from here on was used.
  uint64_t next_sequence = 1;
};

struct FoundLogs {
  // By number, which is the order in which they were begun.
  std::vector<FoundLog> logs;
  // What is wrong beside the records: the format, heads, keys that are none.
  std::vector<std::string> disorder;
  // As StoreFormat::identity.
  uint64_t identity = 0;
  LmdbLogsTail tail;
};

// Reads what is there of the logs; nothing if their file is missing or empty: who knows that it
// must be there has to say so. A value in which one bit has flipped is mended: no two bits that can
// flip give the same difference of checksums. A record under a damaged key is found by its
// checksum, and the job of a log whose head is lost by the log's records.
//
// FAILED_PRECONDITION if the folder is open, naming the process, or has another format; DATA_LOSS
// if its page structure is damaged. O(bytes) for sound logs; for a damaged record 8 times that.
absl::StatusOr<FoundLogs> ReadDamagedLogs(const std::string& folder);

// What a log is to have.
struct NewLog {
  std::string job;
  uint64_t number = 0;
  uint64_t first_sequence = 1;
  std::vector<std::string> records;
};

// Replaces everything in the folder by these logs, in one transaction: after a crash the folder is
// as it was, or has them. Errors as LmdbJobLogs::Open().
absl::Status RewriteLogs(const std::string& folder, const LmdbLogsTail& tail,
                         absl::Span<const NewLog> logs);

// Puts the one flipped bit right in a value that fails the CRC32C of its key and payload. False,
// and nothing changes, if it was not one bit. O(bytes).
bool MendOneBit(absl::string_view key, std::string& raw_value);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_LMDB_LOG_REPAIR_H_
