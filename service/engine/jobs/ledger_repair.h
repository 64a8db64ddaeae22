// What is left of a job's ledger of which some records are damaged.
//
// Each job has a log of its own. If a record of it is lost, the job is given up: nobody knows what
// it had done by then. All other jobs are as they were.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_REPAIR_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_REPAIR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/stored_damage.h"

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
  bool is_mended = false;
};

struct LedgerRepair {
  // In the order of the records.
  std::vector<RecordLoss> losses;
  // The job is given up, since records are lost or do not fit together.
  bool is_lost = false;
  // No generation above it was used, also not by a record that is lost.
  uint64_t last_generation = 0;
  // All records, unless the job is given up.
  std::vector<std::string> records;
};

// `records` in the order of their sequence numbers, with one for each that is missing. O(bytes).
LedgerRepair RepairLedger(absl::Span<const FoundRecord> records);

// Tells what is lost of a log that is kept in `file`; `log` and `cost` in words.
void TellLosses(const LedgerRepair& repair, const std::string& file, absl::string_view log,
                absl::string_view cost, DamageVisitor found);

// The job of an event; empty if the bytes are none, or the event names no job.
std::string JobOfEvent(absl::string_view bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_LEDGER_REPAIR_H_
