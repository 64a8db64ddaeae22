// The progress of an epoch, as a text that a trainer keeps in its checkpoint.
//
// Epochs that are loaded with a cursor go on exactly there, even if the service went further since:
// batches that were done later are given out again. An epoch's batches follow from its identity, so
// a cursor is enough to go on with an epoch that the service has forgotten.
#ifndef PACKHOUSE_SERVICE_ENGINE_JOBS_CURSOR_H_
#define PACKHOUSE_SERVICE_ENGINE_JOBS_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/epochs/batch_set.h"
#include "service/engine/epochs/epoch_identity.h"

namespace packhouse {

struct Cursor {
  EpochIdentity identity;
  // The generation in which it was made (job_ledger.h). It is for people, and keeps generations
  // from being used again after the ledger was lost.
  uint64_t generation = 0;
  // Without padding.
  BatchSet done;
  // Batches of the first windows, of an epoch with windows: at least those of all that is done.
  std::vector<uint32_t> windows = {};

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// base64url, without padding, of a packhouse.internal.Cursor and its CRC32C. About 100 bytes, and 2
// to 6 for each run of batches that are done. O(runs).
std::string EncodeCursor(const Cursor& cursor);

// Longer texts are no cursors: a job has at most 65,536 runs of batches that are done.
inline constexpr size_t kMaxCursorLength = size_t{2} << 20;

// Reads any text. INVALID_ARGUMENT, saying why, for one that is not exactly a cursor, or has a
// batch that its epoch does not have. Time O(length), memory at most 24 times the length, whatever
// the text claims.
absl::StatusOr<Cursor> DecodeCursor(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_JOBS_CURSOR_H_
