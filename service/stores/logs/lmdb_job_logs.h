// The logs of all jobs of a server that is alone: in one folder of a local disk, stored by LMDB.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_LMDB_JOB_LOGS_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_LMDB_JOB_LOGS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
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
#include "service/stores/logs/job_logs.h"

namespace packhouse {

// The head of a job's log: a value under the job's name.
struct LmdbLogHead {
  // Of its records' keys. No other log of the folder has it, or had it.
  uint64_t number = 0;
  // The sequence numbers of its first record and of the next one: they have no gap.
  uint64_t begin = 1;
  uint64_t end = 1;
  // Of its records, as num_bytes() counts them.
  uint64_t num_bytes = 0;

  std::string Encode() const;
  // DATA_LOSS for another length, and for a beginning behind the end.
  static absl::StatusOr<LmdbLogHead> Decode(absl::string_view payload);
};

// What the folder has beside the logs.
struct LmdbLogsTail {
  uint64_t next_number = 1;  // Of the next log.
  uint64_t mark = 0;         // The largest that was given to RecordLog::Erase().

  std::string Encode() const;
  // DATA_LOSS for another length.
  static absl::StatusOr<LmdbLogsTail> Decode(absl::string_view payload);
};

// Thread-safe, and so are its logs, which it must outlive. One process at a time has the folder,
// and the folder has nothing else in it; docs/storage-format.md describes it.
//
// Blocking: an append waits for the disk, together with all other waiting appends of all logs
// (GroupCommit). Appends of one thread keep its order; those of several threads are in the order of
// their commits. Each record of a log has a sequence number, which that log never uses again, and a
// checksum.
//
// Errors of all calls: RESOURCE_EXHAUSTED if the disk or the folder is full, naming the value and
// the bound; nothing of the call is stored, and it succeeds once there is space. UNAVAILABLE if the
// file system is read-only or fails to write. DATA_LOSS, permanently, once the folder's own file
// was removed, replaced or cut off (LmdbEnvironment). If the disk fails to make a commit durable,
// all calls are refused, reading too, until the folder is opened anew.
class LmdbJobLogs final : public JobLogs {
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
    // May be null; must outlive the logs.
    CommitObserver* observer = nullptr;
    // RecordLog::owner_revision() of the first log that is opened; larger than those of all runs
    // before.
    uint64_t first_revision = 1;
  };

  // Opens a folder, and creates it if it is missing. O(records); reads their keys, not their
  // contents.
  //
  // FAILED_PRECONDITION if it is open already, naming the process, or has another format, naming
  // both versions; DATA_LOSS if its page structure is damaged, or a record is missing;
  // RESOURCE_EXHAUSTED; UNAVAILABLE if the file system is read-only and has no logs. A folder on a
  // read-only file system is opened for reading, and every change is UNAVAILABLE.
  static absl::StatusOr<std::unique_ptr<LmdbJobLogs>> Open(const Options& options);

  // The log of any job, also of one that has none yet: the first record makes it. Of one job, one
  // log should be open at a time. Its calls:
  //
  // Append: INVALID_ARGUMENT for a record above kMaxRecordBytes. O(bytes).
  // ReadAll: a consistent snapshot. DATA_LOSS naming the record that is missing or fails its
  // checksum. O(bytes).
  // Replace: in one transaction. The disk needs room for the new records beside the old ones;
  // max_bytes bounds the new ones and the other logs. O(bytes of the new ones + old records).
  absl::StatusOr<JobPlace> Open(const std::string& job) override;
  bool is_alone() const override { return true; }
  absl::StatusOr<std::vector<std::string>> Names() override;
  const std::string& address() const override { return address_; }
  std::vector<std::string> members() const override { return {}; }
  absl::StatusOr<std::vector<std::string>> Read(const std::string& job) override;

  // All logs at one moment, for a snapshot: while the transaction lives, no space that is freed is
  // used again. ForEach() gives each record to `visit`, log by log and in order; errors as
  // ReadAll(), and those of `visit`.
  absl::StatusOr<LmdbTransaction> BeginReading() const;
  absl::Status ForEach(
      const LmdbTransaction& moment,
      absl::FunctionRef<absl::Status(absl::string_view job, absl::string_view record)> visit) const;
  // RecordLog::mark() at that moment.
  absl::StatusOr<uint64_t> MarkAt(const LmdbTransaction& moment) const;
  // Makes it at least that, as RecordLog::Erase() does.
  absl::Status RaiseMark(uint64_t mark) { return Erase(/*job=*/"", mark); }

  // The status with which all calls are permanently refused: DATA_LOSS once the file was removed,
  // replaced or cut off, or part of it could not be read; or the error of a failed commit.
  // UNAVAILABLE if the state of the file cannot be determined now. Checks the file with two system
  // calls.
  absl::Status health() const;
  // Commits an empty change, if there is room for `bytes` more: OK if the logs can be written to.
  // Blocks.
  absl::Status TryCommit(uint64_t bytes);
  // Why all calls are refused until the folder is opened anew; OK if they are not.
  absl::Status failure() const { return commits_.failure(); }

  // The durable records of all logs.
  uint64_t num_records() const { return commits_.totals().num_entries; }
  // Their bytes on the disk, without free room in the trees' pages.
  uint64_t num_bytes() const { return commits_.totals().num_bytes; }
  // Changes that wait for a commit that they are not part of.
  size_t num_waiting() const { return commits_.num_waiting(); }
  // As StoreFormat::identity.
  uint64_t identity() const { return identity_; }
  // Whether the file system is read-only.
  bool is_read_only() const { return environment_->is_read_only(); }
  // What a record of so many bytes, with its checksum, counts.
  static uint64_t BytesOf(const LmdbEnvironment& environment, uint64_t value_bytes);

 private:
  class Log;

  LmdbJobLogs(std::unique_ptr<LmdbEnvironment> environment, const Options& options)
      : options_(options),
        environment_(std::move(environment)),
        commits_(environment_.get(), options.observer, GroupCommit::AfterDiskFailure::kRefuse),
        next_revision_(options.first_revision) {}

  absl::Status Load();
  absl::Status Append(const std::string& job, absl::Span<const std::string> records);
  absl::Status Replace(const std::string& job, absl::Span<const std::string> records);
  // No job has an empty name, nor a log then.
  absl::Status Erase(const std::string& job, uint64_t mark);
  absl::StatusOr<uint64_t> BytesOf(absl::Span<const std::string> records) const;
  absl::Status CheckRoom(uint64_t used, uint64_t added) const;

  const Options options_;
  const std::string address_;
  const std::unique_ptr<LmdbEnvironment> environment_;
  uint64_t identity_ = 0;  // Constant once it is open.
  GroupCommit commits_;
  std::atomic<uint64_t> next_revision_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_LMDB_JOB_LOGS_H_
