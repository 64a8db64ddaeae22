// A record log in one folder of a local disk, stored by LMDB.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_LMDB_RECORD_LOG_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_LMDB_RECORD_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/stores/datasets/commit_observer.h"
#include "service/stores/lmdb/group_commit.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// Thread-safe. One process at a time has the folder, and the folder has nothing else in it;
// docs/storage-format.md describes it.
//
// Blocking: an append waits for the disk, together with all other waiting appends (GroupCommit).
// Appends of one thread keep its order; those of several threads are in the order of their commits.
// Each record has a sequence number, which is never used again, and a checksum.
//
// Errors of all calls: RESOURCE_EXHAUSTED if the disk or the log is full, naming the value and the
// bound; nothing of the call is stored, and it succeeds once there is space. UNAVAILABLE if the
// file system is read-only or fails to write. DATA_LOSS, permanently, once the log's own file was
// removed, replaced or cut off (LmdbEnvironment). If the disk fails to make a commit durable, all
// calls are refused, reading too, until the log is opened anew.
class LmdbRecordLog final : public RecordLog {
 public:
  // The overhead of a record, besides its bytes and their checksum, counts as this many bytes.
  static constexpr uint64_t kBytesPerRecord = 32;
  static constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

  struct Options {
    std::string folder;
    // The bound of num_bytes(). Four times as much and 256 MiB of address space are mapped: trees
    // may be half full, and Replace() writes the new records before the old ones' pages are free.
    // The file grows as it is needed and does not shrink; its free pages are used again.
    uint64_t max_bytes = uint64_t{1} << 30;
    // May be null; must outlive the log.
    CommitObserver* observer = nullptr;
  };

  // Opens a folder, and creates it if it is missing. O(records); reads their keys, not their
  // contents.
  //
  // FAILED_PRECONDITION if it is open already, naming the process, or has another format, naming
  // both versions; DATA_LOSS if its page structure
  // is damaged, or a record is missing; RESOURCE_EXHAUSTED; UNAVAILABLE if the file system is
  // read-only and has no log. A log on a read-only file system is opened for reading, and every
  // change is UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<LmdbRecordLog>> Open(const Options& options);

  // INVALID_ARGUMENT for a record above kMaxRecordBytes. O(bytes).
  absl::Status Append(absl::Span<const std::string> records) override;

  // A consistent snapshot. DATA_LOSS naming the record that is missing or fails its checksum.
  // O(bytes).
  absl::StatusOr<std::vector<std::string>> ReadAll() override;

  // The log at one moment, for a snapshot: while the transaction lives, no space that is freed is
  // used again. ForEach() gives each record to `visit`, in order; errors as ReadAll(), and those of
  // `visit`.
  absl::StatusOr<LmdbTransaction> BeginReading() const;
  absl::Status ForEach(const LmdbTransaction& moment,
                       absl::FunctionRef<absl::Status(absl::string_view record)> visit) const;

  // Happens in one transaction. The disk needs room for the new records beside the old ones;
  // max_bytes bounds the new ones alone. O(bytes of the new ones + old records).
  absl::Status Replace(absl::Span<const std::string> records) override;

  // The status with which all calls are permanently refused: DATA_LOSS once the log's file was
  // removed, replaced or cut off, or part of it could not be read; or the error of a failed commit.
  // UNAVAILABLE if the state of the file cannot be determined now. Checks the file with two system
  // calls.
  absl::Status health() const;
  // Commits an empty change, if there is room for `bytes` more: OK if the log can be written to.
  // Blocks.
  absl::Status TryCommit(uint64_t bytes);
  // Why all calls are refused until the log is opened anew; OK if they are not.
  absl::Status failure() const { return commits_.failure(); }

  // The durable records, for deciding when a snapshot should replace them.
  uint64_t num_records() const { return commits_.totals().num_entries; }
  // Their bytes on the disk, without free room in the trees' pages.
  uint64_t num_bytes() const { return commits_.totals().num_bytes; }
  // Whether the file system is read-only.
  // As StoreFormat::identity.
  uint64_t identity() const { return identity_; }
  bool is_read_only() const { return environment_->is_read_only(); }

 private:
  LmdbRecordLog(std::unique_ptr<LmdbEnvironment> environment, const Options& options)
      : options_(options),
        environment_(std::move(environment)),
        commits_(environment_.get(), options.observer, GroupCommit::AfterDiskFailure::kRefuse) {}

  absl::Status Load();
  // The bytes of a record with its checksum.
  uint64_t BytesOf(uint64_t value_bytes) const;
  absl::StatusOr<uint64_t> BytesOf(absl::Span<const std::string> records) const;
  absl::Status CheckRoom(uint64_t used, uint64_t added) const;

  const Options options_;
  const std::unique_ptr<LmdbEnvironment> environment_;
  uint64_t identity_ = 0;  // Constant once it is open.
  GroupCommit commits_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_LMDB_RECORD_LOG_H_
