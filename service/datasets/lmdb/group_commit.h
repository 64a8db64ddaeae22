// Many threads that each want a durable change share the disk's flushes.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_GROUP_COMMIT_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_GROUP_COMMIT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "service/datasets/commit_observer.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/datasets/lmdb/lmdb_transaction.h"

namespace packhouse {

// What is known of a whole store of data sets or of a log, kept beside it. A change works on a copy
// that becomes the truth with its commit.
struct StoreTotals {
  uint64_t next_number = 1;  // Of the next data set, or of the log's next record.
  uint64_t num_entries = 0;  // Data sets, or records of the log.
  uint64_t num_bytes = 0;    // Of all records, those of deleted data sets until they are erased.
};

// Runs changes one after the other and makes them durable, as many in one commit as wait. Has no
// threads: the first to come commits its change; who comes meanwhile queues; one of those then
// commits for all of them. Thread-safe.
class GroupCommit {
 public:
  // At most so much shares a commit, since it is in memory until then.
  static constexpr size_t kMaxChanges = 256;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  // A change writes into the transaction and returns OK, or returns an error, and then nothing of
  // it will have happened. It may be run again, should others that share its commit fail.
  using Change = absl::FunctionRef<absl::Status(LmdbTransaction&, StoreTotals&)>;

  // What follows when the disk fails to make a commit durable. That it is full does not count: then
  // nothing is there, and each change is tried alone.
  enum class AfterDiskFailure {
    kTryAgain,  // Each change is tried alone, and later ones as ever.
    kRefuse,    // All changes of the commit fail, and so does every later one.
  };

  // `environment` and `observer` (null: nobody watches) must outlive it.
  GroupCommit(const LmdbEnvironment* environment, CommitObserver* observer,
              AfterDiskFailure after_disk_failure = AfterDiskFailure::kTryAgain)
      : environment_(environment), observer_(observer), after_disk_failure_(after_disk_failure) {}

  // Before the first Run().
  void SetTotals(const StoreTotals& totals);
  StoreTotals totals() const;

  // With kRefuse, what every change is answered with since the disk failed; until then OK.
  absl::Status failure() const;

  // Changes that wait for a commit to end, which they are not part of.
  size_t num_waiting() const;

  // Blocks until the change is durable or has failed. `num_bytes`: about what it writes. One that
  // has no memory for what it does (std::bad_alloc) has failed: RESOURCE_EXHAUSTED.
  absl::Status Run(Change change, uint64_t num_bytes);

  // The same for a change that nobody waits for; one thread at a time. It is run on this thread
  // only, behind the changes of all who wait when its turn comes, whose commit it shares. Its turn
  // comes when nobody commits, or else after kCommitsBetween commits: those of others are held up
  // by no more than what the change itself takes.
  absl::Status RunBehind(Change change);
  static constexpr size_t kCommitsBetween = 3;

 private:
  struct Waiter {
    Change change;
    uint64_t num_bytes;
    absl::Status status;
    bool is_done = false;
  };

  // What became of the disk in one commit.
  struct Disk {
    absl::Status failure;                 // As failure_.
    std::optional<absl::Status> outcome;  // As in CommitSummary.
  };

  // Takes what waits, and `last` unless it is null, and commits it.
  void Commit(Waiter* last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Outside the lock, by the one thread that has set is_committing_.
  void CommitTogether(absl::Span<Waiter* const> group, StoreTotals& totals, Disk& disk) const;
  absl::Status CommitAlone(Waiter& waiter, StoreTotals& totals, Disk& disk) const;
  absl::StatusOr<LmdbTransaction> Begin(Disk& disk) const;
  absl::Status Commit(LmdbTransaction& transaction, Disk& disk) const;

  // Constant after construction.
  const LmdbEnvironment* const environment_;
  CommitObserver* const observer_;
  const AfterDiskFailure after_disk_failure_;

  mutable absl::Mutex mutex_;
  std::deque<Waiter*> queue_ ABSL_GUARDED_BY(mutex_);
  bool is_committing_ ABSL_GUARDED_BY(mutex_) = false;
  // A change waits in RunBehind(), and so many commits went before it.
  bool is_behind_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_commits_before_ ABSL_GUARDED_BY(mutex_) = 0;
  StoreTotals totals_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_GROUP_COMMIT_H_
