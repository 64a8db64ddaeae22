// Whether everything in a folder of data sets is as it was written.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_STORE_CHECK_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_STORE_CHECK_H_

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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_STORE_CHECK_H_
