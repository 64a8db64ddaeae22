// All data sets of a store as they were at one moment, for a copy of them.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_DATASETS_CUT_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_DATASETS_CUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

class LmdbSharedStore;

// A key of the store and its value as stored, with its checksum; of a record, the record.
using StoredValueVisitor =
    absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view raw_value)>;

// Nothing of the data sets is erased as long as it lives. It keeps no transaction open: the store
// goes on as usual meanwhile, and uses freed space again, except that of these data sets. Copies
// damaged values as they are. Thread-compatible.
class DatasetsCut {
 public:
  // A data set's records. Later appends are not among them.
  struct Dataset {
    uint64_t number = 0;
    // Graphs at the moment; the most that there can be if its state is damaged.
    uint64_t num_graphs = 0;
  };

  // Gives all values except records to `visit`, in ascending order of keys, in one transaction:
  // while `visit` is at work, no space that is freed in the store is used again. The errors of
  // `visit`; UNAVAILABLE if data sets were created faster than they could be listed.
  static absl::StatusOr<std::unique_ptr<DatasetsCut>> Take(std::shared_ptr<LmdbSharedStore> store,
                                                           StoredValueVisitor visit);
  ~DatasetsCut();
  DatasetsCut(const DatasetsCut&) = delete;
  DatasetsCut& operator=(const DatasetsCut&) = delete;

  // In ascending order of numbers.
  const std::vector<Dataset>& datasets() const { return datasets_; }

  // Gives records of a data set to `visit`, from the first with graph `from` or later on, until
  // they are `max_bytes` or more, or 65536. Returns the graph from which the next call goes on;
  // `num_graphs` if that was all. DATA_LOSS if the file was lost meanwhile: what was given must
  // not be used then.
  absl::StatusOr<uint64_t> VisitRecords(const Dataset& dataset, uint64_t from, uint64_t max_bytes,
                                        StoredValueVisitor visit) const;

  // Bytes of a page: a record takes pages of its own.
  size_t page_bytes() const;

 private:
  explicit DatasetsCut(std::shared_ptr<LmdbSharedStore> store) : store_(std::move(store)) {}

  const std::shared_ptr<LmdbSharedStore> store_;
  std::vector<uint64_t> pinned_;
  std::vector<Dataset> datasets_;
};

// Writes values that a cut gave into a new folder, from which LmdbDatasetStore::Open() then reads
// them. `next` gives one value after the other, and false after the last; views are valid until its
// next call. Durable when it returns OK; after an error or a crash, part of them is there.
//
// ALREADY_EXISTS if the folder has a store; FAILED_PRECONDITION if its pages would have another
// size than `page_bytes`; errors of `next`, and as LmdbEnvironment::Open(). `value_bytes`: at least
// the bytes of all keys and values. Memory: 64 MiB, or the largest value if that is more.
absl::Status RestoreDatasetFolder(
    const std::string& folder, size_t page_bytes, uint64_t value_bytes,
    absl::FunctionRef<absl::StatusOr<bool>(absl::string_view& key, absl::string_view& raw_value)>
        next);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_DATASETS_CUT_H_
