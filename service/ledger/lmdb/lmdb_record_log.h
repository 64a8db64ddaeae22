// A record log in one folder of a local disk, by LMDB.
#ifndef PACKHOUSE_SERVICE_LEDGER_LMDB_LMDB_RECORD_LOG_H_
#define PACKHOUSE_SERVICE_LEDGER_LMDB_LMDB_RECORD_LOG_H_

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
#include "service/datasets/commit_observer.h"
#include "service/datasets/lmdb/group_commit.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/ledger/record_log.h"

namespace packhouse {

// Thread-safe. One process has the folder at a time, and nothing else is in it;
// docs/storage-format.md says what is.
//
// Blocking: an append waits for the disk, together with all others that wait (GroupCommit). Appends
// of one thread are in its order, those of several in the order in which they were committed. Each
// record has a sequence number, which is never used again, and a checksum.
//
// Errors of all calls: RESOURCE_EXHAUSTED if the disk or the log is full, naming the value and the
// bound; nothing of the call is there, and once there is space it goes through. UNAVAILABLE if the
// file system is read-only or fails to write. DATA_LOSS, for good, once the log's own file was
// removed, replaced or cut off (LmdbEnvironment). When the disk fails to make a commit durable,
// everything is refused, reading too, until the log is opened anew.
class LmdbRecordLog final : public RecordLog {
 public:
  // What is kept of a record besides its bytes and their checksum counts as so many.
  static constexpr uint64_t kBytesPerRecord = 32;
  static constexpr uint64_t kMaxRecordBytes = uint64_t{1} << 30;

  struct Options {
    std::string folder;
    // Most that num_bytes() may become. Four times as much address space and 256 MiB are mapped:
    // trees may be half full, and Replace() writes the new records before the old ones' pages are
    // free. The file grows as it is needed and does not shrink; its free pages are used again.
    uint64_t max_bytes = uint64_t{1} << 30;
    // May be null; must outlive the log.
    CommitObserver* observer = nullptr;
  };

  // Opens a folder, creates it if need be. O(records); reads their keys, not what they hold.
  //
  // FAILED_PRECONDITION if it is open already, naming the process, or has another format, naming
  // both versions, and for an older one the flag that converts it; DATA_LOSS if its page structure
  // is damaged, or a record is missing; RESOURCE_EXHAUSTED; UNAVAILABLE if the file system is
  // read-only and nothing is there: else it is opened for reading, and whatever writes is
  // UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<LmdbRecordLog>> Open(const Options& options);

  // Converts a folder that a server before format 2 wrote, each record by `convert`, in one
  // transaction: after a crash at any moment it is as it was, or converted. False if there was
  // nothing to convert. DATA_LOSS naming a record that cannot be read or that `convert` refuses;
  // other errors as Open(), but for an older format. O(bytes).
  static absl::StatusOr<bool> Upgrade(
      const Options& options,
      absl::FunctionRef<absl::StatusOr<std::string>(absl::string_view record)> convert);

  // INVALID_ARGUMENT for a record above kMaxRecordBytes. O(bytes).
  absl::Status Append(absl::Span<const std::string> records) override;

  // All of one moment. DATA_LOSS naming the record that is missing or fails its checksum. O(bytes).
  absl::StatusOr<std::vector<std::string>> ReadAll() override;

  // In one transaction. Needs room for the new records beside the old ones, on the disk and within
  // max_bytes for the new ones alone. O(bytes of the new ones + old records).
  absl::Status Replace(absl::Span<const std::string> records) override;

  // What everything is refused with, for good: DATA_LOSS once the log's file was removed, replaced
  // or cut off, or part of it could not be read, or what a commit failed with. UNAVAILABLE if that
  // cannot be told now. Looks at the file: two system calls.
  absl::Status health() const;
  // Commits a change that changes nothing, if there is room for one of so many bytes: OK if the log
  // can be written to. Blocks.
  absl::Status TryCommit(uint64_t bytes);
  // Why everything is refused until the log is opened anew; OK if it is not.
  absl::Status failure() const { return commits_.failure(); }

  // What is durable: for who decides when a snapshot shall replace it.
  uint64_t num_records() const { return commits_.totals().num_entries; }
  // As they lie on the disk, but for free room in the trees' pages.
  uint64_t num_bytes() const { return commits_.totals().num_bytes; }
  // Whether the file system is read-only.
  bool is_read_only() const { return environment_->is_read_only(); }

 private:
  LmdbRecordLog(std::unique_ptr<LmdbEnvironment> environment, const Options& options)
      : options_(options),
        environment_(std::move(environment)),
        commits_(environment_.get(), options.observer, GroupCommit::AfterDiskFailure::kRefuse) {}

  absl::Status Load();
  // Of a record with its checksum.
  uint64_t BytesOf(uint64_t value_bytes) const;
  absl::StatusOr<uint64_t> BytesOf(absl::Span<const std::string> records) const;
  absl::Status CheckRoom(uint64_t used, uint64_t added) const;

  const Options options_;
  const std::unique_ptr<LmdbEnvironment> environment_;
  GroupCommit commits_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_LEDGER_LMDB_LMDB_RECORD_LOG_H_
