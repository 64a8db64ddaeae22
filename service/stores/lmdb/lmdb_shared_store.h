// The part that a store of data sets and its readers share: environment, commits, erasing.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_SHARED_STORE_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_SHARED_STORE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/stores/datasets/commit_observer.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/group_commit.h"
#include "service/stores/lmdb/lmdb_dataset_eraser.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"

namespace packhouse {

// About the bytes of a small change, or of a change without its records.
inline constexpr uint64_t kSmallChangeBytes = 4096;

// Everything that is stored of a data set. It stays until the owner is destroyed.
struct OpenedDataset {
  StoredDataset dataset;
  StoredState state;
  absl::StatusOr<SizeHistogram> histogram;
  absl::Status producers;
  std::shared_ptr<const void> owner;
};

// Lives as long as the store or a reader. Thread-safe once it is loaded.
class LmdbSharedStore {
 public:
  LmdbSharedStore(std::unique_ptr<LmdbEnvironment> environment, CommitObserver* observer)
      : environment_(std::move(environment)),
        commits_(environment_.get(), observer),
        eraser_(environment_.get(), &commits_) {}

  // Reads the store's totals, and the data sets that were deleted before. FAILED_PRECONDITION as
  // CheckFormat(). O(data sets).
  absl::Status Load();

  const LmdbEnvironment& environment() const { return *environment_; }
  // As StoreFormat::identity.
  uint64_t identity() const { return identity_; }
  GroupCommit& commits() { return commits_; }
  LmdbDatasetEraser& eraser() { return eraser_; }

  absl::StatusOr<LmdbTransaction> Read() const {
    return LmdbTransaction::Begin(*environment_, LmdbTransaction::Kind::kRead);
  }
  // A result is valid only if the store's file was there throughout.
  template <typename T>
  absl::StatusOr<T> IfIntact(absl::StatusOr<T> read) const {
    const absl::Status files = environment_->CheckFiles();
    if (!files.ok()) return files;
    return read;
  }

  // Makes a change durable. If it fails because it needs room, waits for deleted data sets that can
  // be erased.
  absl::Status CommitWithRoom(GroupCommit::Change change, uint64_t num_bytes,
                              const bool& may_need_room);

  // Errors as ReadDefinition(), ReadState() and InfoOf(). O(records).
  static absl::StatusOr<OpenedDataset> OpenDataset(const std::shared_ptr<LmdbSharedStore>& shared,
                                                   absl::string_view name);

 private:
  absl::Status WriteFormatIfNew();
  absl::StatusOr<StoredDefinition> Definition(absl::string_view name) const;
  // Nothing of the data set is erased until the returned owner is destroyed.
  static std::shared_ptr<const void> Pin(const std::shared_ptr<LmdbSharedStore>& shared,
                                         uint64_t dataset);

  const std::unique_ptr<LmdbEnvironment> environment_;
  uint64_t identity_ = 0;  // Constant once it is loaded.
  GroupCommit commits_;
  LmdbDatasetEraser eraser_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_SHARED_STORE_H_
