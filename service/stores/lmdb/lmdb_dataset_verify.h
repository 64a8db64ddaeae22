// Checks everything that is stored of a data set against everything else.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_VERIFY_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_VERIFY_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_shared_store.h"

namespace packhouse {

// Checks every record with its checksums and values, the records together, and that the state, the
// histogram and the producers agree with them. `progress` is called after each record. If it ends
// the check: CANCELLED, naming how far it came. O(bytes).
absl::StatusOr<VerifyReport> VerifyDataset(const OpenedDataset& opened,
                                           const LmdbEnvironment& environment,
                                           absl::FunctionRef<bool(const VerifyProgress&)> progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_VERIFY_H_
