// Data sets in one folder of a local disk, stored by LMDB.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_STORE_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/datasets/commit_observer.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/lmdb/datasets_cut.h"

namespace packhouse {

class LmdbSharedStore;

// One process at a time has the folder. The file system must be local (LMDB maps the file), and
// data must be durable after fdatasync(). docs/storage-format.md says what is in the folder.
//
// Blocking: an append waits for the disk, together with all other waiting appends (GroupCommit).
// Reading uses the map, without copies and without waiting for other calls; a page that is not in
// memory is read from the disk when it is touched. Deleting waits for one small commit. Letting go
// of a reader waits for nothing: a thread of the store erases deleted data sets
// (LmdbDatasetEraser).
class LmdbDatasetStore final : public DatasetStore {
 public:
  struct Options {
    std::string folder;
    // The most bytes on disk of all data sets together. A quarter more and 256 MiB of address space
    // are mapped, as room for trees and fragments. The file grows when needed and does not shrink:
    // space of deleted data sets is used again.
    uint64_t max_bytes = uint64_t{64} << 30;
    size_t max_datasets = size_t{1} << 16;
    // May be null; must outlive the store and its readers.
    CommitObserver* observer = nullptr;
  };

  // Opens a folder, creates it if it is missing, and continues to erase deleted data sets.
  //
  // FAILED_PRECONDITION if it is open already, naming the process, or has another format, naming
  // both versions, and for an older one the flag that converts it; DATA_LOSS if its page structure
  // is damaged; RESOURCE_EXHAUSTED; UNAVAILABLE if the file system is read-only and has no store. A
  // store on a read-only file system is opened for reading, and every change is UNAVAILABLE. O(data
  // sets + records); for a million records 0.8 s if the file is in memory, some 5 s if it is read
  // from the disk (docs/storage-format.md).
  static absl::StatusOr<std::unique_ptr<LmdbDatasetStore>> Open(const Options& options);

  // Waits for a commit that erases. Readers may go on; the folder is closed with the last reader.
  ~LmdbDatasetStore() override;

  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override;
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override;
  absl::StatusOr<ProducerHistory> GetProducer(const Target& target,
                                              absl::string_view producer) const override;
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override;
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override;
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override;
  absl::StatusOr<SizeHistogram> GetReservedHistogram(
      absl::string_view name,
      absl::FunctionRef<absl::Status(uint64_t bytes)> reserve) const override;
  absl::StatusOr<DatasetList> List(size_t page_size, absl::string_view page_token) const override;
  absl::Status Delete(const Target& target) override;
  absl::StatusOr<VerifyReport> Verify(
      absl::string_view name,
      absl::FunctionRef<bool(const VerifyProgress&)> progress) const override;
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override;
  // A chunk is a record.
  absl::StatusOr<std::shared_ptr<const DatasetChunks>> OpenChunks(
      absl::string_view name) const override;

  // All data sets at one moment, for a snapshot: DatasetsCut::Take().
  absl::StatusOr<std::unique_ptr<DatasetsCut>> TakeCut(StoredValueVisitor visit) const;

  // Waits until all deleted data sets that nobody reads are erased. An error is the disk's.
  absl::Status WaitUntilErased() const;

  // DATA_LOSS once the store's file was removed, replaced or cut off, or part of it could not be
  // read. From then on the store answers every call with it, until it is opened anew. UNAVAILABLE
  // if the state of the file cannot be determined now. Checks the file with two system calls.
  absl::Status health() const;
  // Commits an empty change, if there is room for `bytes` more: OK if the store can be written to.
  // Blocks.
  absl::Status TryCommit(uint64_t bytes);
  // Bytes of all data sets on disk, with deleted ones that are not erased yet.
  uint64_t num_bytes() const;
  // Whether the file system is read-only.
  bool is_read_only() const;
  // As StoreFormat::identity.
  uint64_t identity() const;

 private:
  // Bytes of address space for `max_bytes` of data sets.
  static uint64_t MapBytes(uint64_t max_bytes);

  LmdbDatasetStore(std::shared_ptr<LmdbSharedStore> shared, const Options& options)
      : shared_(std::move(shared)), options_(options) {}

  const std::shared_ptr<LmdbSharedStore> shared_;
  const Options options_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_STORE_H_
