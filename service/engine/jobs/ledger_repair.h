// What is left of a ledger of which some records are damaged.
//
// A lost record belongs to one job, and only this job is given up: nobody knows what it had done by
// then. The job is told by what can still be read of the record: its name, or the generation, which
// no other job has. All other jobs are as they were.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_REPAIR_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_REPAIR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace packhouse {

// A record as it was found.
struct FoundRecord {
  uint64_t sequence = 0;
  // Without its checksum; may be anything unless `status` is OK.
  std::string bytes;
  // DATA_LOSS, saying what is wrong.
  absl::Status status;
  // One bit had flipped and was put right: `bytes` are those that were written.
  bool is_mended = false;
};

// What became of a damaged record.
struct RecordLoss {
  uint64_t sequence = 0;
  std::string what;
  // The jobs that it may have belonged to, in ascending order; empty: any job, or none if
  // `is_mended`.
  std::vector<std::string> jobs;
  bool is_mended = false;
};

struct LedgerRepair {
  // In the order of the records.
  std::vector<RecordLoss> losses;
  // Names of the jobs that are given up, in ascending order; those whose records do not fit
  // together without the lost ones too.
  std::vector<std::string> lost_jobs;
  // Whether a loss may belong to any job: then all of them are in `lost_jobs`.
  bool loses_all = false;
  // Records of everything else, for RecordLog::Replace(). Generations that were used are not used
  // again.
  std::vector<std::string> records;

  bool is_sound() const { return losses.empty() && lost_jobs.empty(); }
};

// `records` in the order of their sequence numbers, with one for each that is missing. O(bytes) for
// each job that is given up.
LedgerRepair RepairLedger(absl::Span<const FoundRecord> records);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_REPAIR_H_
