// What is done to the folder of a store that no server uses: everything is checked, and free space
// is given back to the disk.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_MAINTENANCE_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_MAINTENANCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "service/base/stored_damage.h"

namespace packhouse {

// Reads everything: the trees, every value and its checksum, and each data set as
// DatasetStore::Verify() does. Changes nothing. Damage is no error. The result is the number of
// data sets; 0 if the file is missing or empty: who knows that it must be there has to say so.
// `identity`, unless null, is then the store's (StoreFormat), if it could be read.
//
// FAILED_PRECONDITION if the folder is open, naming the process, or has another format.
// O(bytes) time, O(records of a data set) memory.
absl::StatusOr<uint64_t> CheckDatasetFolder(const std::string& folder, DamageVisitor found,
                                            uint64_t* identity = nullptr);

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

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_MAINTENANCE_H_
