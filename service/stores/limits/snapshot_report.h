// What a snapshot has copied so far, or in all; and how it is asked for.
#ifndef PACKHOUSE_SERVICE_STORES_LIMITS_SNAPSHOT_REPORT_H_
#define PACKHOUSE_SERVICE_STORES_LIMITS_SNAPSHOT_REPORT_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse {

struct SnapshotReport {
  std::string folder;
  uint64_t num_files = 0;
  uint64_t num_bytes = 0;
  // Of these, what an earlier try had copied already.
  uint64_t num_kept_files = 0;
  uint64_t num_kept_bytes = 0;
  // About the bytes in all; 0 while it is not known.
  uint64_t total_bytes = 0;
};

// Called after each MiB or file; false ends the snapshot with CANCELLED.
using SnapshotProgress = absl::FunctionRef<bool(const SnapshotReport&)>;

// Gives the bytes of a file, in parts, to a function; ends with its error.
using FileGiver = absl::FunctionRef<absl::Status(
    absl::FunctionRef<absl::Status(absl::string_view bytes)> append)>;

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LIMITS_SNAPSHOT_REPORT_H_
