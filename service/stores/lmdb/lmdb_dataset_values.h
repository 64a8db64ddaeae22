// What is stored of a data set besides its records, read in a transaction.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_VALUES_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/lmdb_transaction.h"

namespace packhouse {

// Errors of all functions: DATA_LOSS naming the data set if a value is missing or fails its
// checksum.

absl::Status NoSuchDataset(absl::string_view name);
// The same status, naming the data set.
absl::Status WithDatasetName(absl::string_view name, const absl::Status& status);

// The same for a value that was read and is wrong; or that the file has been lost, from which zeros
// are read.
absl::Status WrongValue(const LmdbTransaction& transaction, absl::string_view name,
                        const absl::Status& status);

// NOT_FOUND, also for a name that no data set can have.
absl::StatusOr<StoredDefinition> ReadDefinition(const LmdbTransaction& transaction,
                                                absl::string_view name);
absl::StatusOr<StoredState> ReadState(const LmdbTransaction& transaction, absl::string_view name,
                                      uint64_t dataset);
absl::StatusOr<DatasetInfo> InfoOf(absl::string_view name, const StoredDefinition& definition,
                                   const StoredState& state);
absl::StatusOr<DatasetInfo> ReadInfo(const LmdbTransaction& transaction, absl::string_view name);

// Adds up the runs; `keys`, unless null, becomes the keys of the existing runs.
absl::StatusOr<SizeHistogram> ReadHistogram(const LmdbTransaction& transaction,
                                            absl::string_view name, uint64_t dataset,
                                            const StoredState& state,
                                            std::vector<std::string>* keys);

// Checks that every value of a producer is sound, and that there are as many as the state says.
absl::Status CheckProducers(const LmdbTransaction& transaction, absl::string_view name,
                            uint64_t dataset, const StoredState& state);

// Visits the values whose keys have the prefix, in order, until `visit` returns false. Values are
// as stored, with their checksums.
absl::Status ForEachKey(
    const LmdbTransaction& transaction, absl::string_view prefix,
    absl::FunctionRef<bool(absl::string_view key, absl::string_view raw_value)> visit);

// Calls `visit` for the first key of each run of keys that are of no kind. O(kinds * log keys).
absl::Status ForEachStrayKey(const LmdbTransaction& transaction,
                             absl::FunctionRef<void(absl::string_view key)> visit);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_VALUES_H_
