// Where an epoch stands, as a text that a trainer keeps in its checkpoint.
//
// Epochs that are loaded with a cursor go on exactly there, even if the service went further since:
// what was done after it is given out again. As an epoch's batches follow from its identity, a
// cursor is enough to go on with an epoch of which the service has forgotten everything.
#ifndef PACKHOUSE_SERVICE_DELIVERY_CURSOR_H_
#define PACKHOUSE_SERVICE_DELIVERY_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/epochs/batch_set.h"
#include "service/epochs/epoch_identity.h"

namespace packhouse {

struct Cursor {
  EpochIdentity identity;
  // In which it was made (job_ledger.h); for people, and so that generations are not used again
  // after the ledger was lost.
  uint64_t generation = 0;
  // Without padding.
  BatchSet done;

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// base64url, without padding, of a packhouse.internal.Cursor and its CRC32C. About 100 bytes, and 2
// to 6 for each run of batches that are done. O(runs).
std::string EncodeCursor(const Cursor& cursor);

// Longer texts are no cursors: a job has at most 65,536 runs of batches that are done.
inline constexpr size_t kMaxCursorLength = size_t{2} << 20;

// Reads any text; cursors of servers before format 2 too. INVALID_ARGUMENT, saying why, for what is
// not a cursor, letter by letter, or has a batch that its epoch has not. Time O(length), memory at
// most 24 times the length, whatever it claims.
absl::StatusOr<Cursor> DecodeCursor(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DELIVERY_CURSOR_H_
