// From one store of data sets to another.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_DATASET_COPY_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_DATASET_COPY_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

struct DatasetCopy {
  uint64_t num_graphs = 0;
  uint64_t num_records = 0;
  // Those of them that an earlier call had copied.
  uint64_t num_old_records = 0;
};

// Copies a sealed data set under its name: the same graphs in the same records and order, with
// their ids, groups and options. The copy has another id and version. It is sealed at the end, and
// so can be loaded only when it is whole.
//
// A call that ended early, or whose outcome is not known, is made again: records that are there are
// not appended again. (They have a producer of their own, named after the data set's version.)
// `progress` is called after each record; if it returns false, the copy ends with CANCELLED.
//
// NOT_FOUND; FAILED_PRECONDITION if the data set is open, since producers go on from numbers that
// would not be copied; ALREADY_EXISTS if `to` has another data set of this name; DATA_LOSS if a
// record cannot be read; errors of both stores.
absl::StatusOr<DatasetCopy> CopyDataset(
    const DatasetStore& from, DatasetStore& to, absl::string_view name,
    absl::FunctionRef<bool(const DatasetCopy& copied, const DatasetInfo& of)> progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_DATASET_COPY_H_
