// Gives the free space of an embedded store back to the disk.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_COMPACTION_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_COMPACTION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace packhouse {

struct CompactedFile {
  uint64_t bytes_before = 0;
  uint64_t bytes_after = 0;
};

// Writes the used pages of a folder's data file (data sets, or a log) to a file beside it, checks
// its trees, and puts it in the place of the other. A crash at any moment leaves one of the two.
// The disk needs room for both.
//
// NOT_FOUND if there is no such store; errors as LmdbEnvironment::Open(). O(used bytes).
absl::StatusOr<CompactedFile> CompactLmdbFolder(const std::string& folder);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_COMPACTION_H_
