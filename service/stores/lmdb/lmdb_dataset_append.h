// Appends a chunk to a data set, in a transaction.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_APPEND_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_APPEND_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/stores/lmdb/group_commit.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"

namespace packhouse {

// The whole append. Errors as DatasetStore::Append(). `max_bytes` bounds all data sets together;
// `may_need_room` becomes true if an error might not happen in a store with more room.
absl::StatusOr<AppendResult> AppendIn(LmdbTransaction& transaction, StoreTotals& totals,
                                      const LmdbEnvironment& environment, uint64_t max_bytes,
                                      const PreparedAppend& append, bool& may_need_room);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_APPEND_H_
