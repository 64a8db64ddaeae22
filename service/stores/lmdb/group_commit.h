// Threads that each want a durable change share the disk's flushes.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_GROUP_COMMIT_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_GROUP_COMMIT_H_

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
#include "service/stores/datasets/commit_observer.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"

namespace packhouse {

// The totals of a store of data sets or of logs. A change works on a copy, which becomes valid
// with its commit.
struct StoreTotals {
  uint64_t next_number = 1;  // The number of the next data set.
  uint64_t num_entries = 0;  // Data sets, or records of all logs.
  uint64_t num_bytes =
      0;  // Bytes of all records; those of deleted data sets count until they are erased.
};

// Runs changes one after the other and makes them durable; all waiting changes share a commit. Has
// no threads: the first caller commits its change, later callers queue, and then one of these
// commits for all of them. Thread-safe.
class GroupCommit {
 public:
  // The most bytes and changes of a commit, since they are in memory until then.
  static constexpr size_t kMaxChanges = 256;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;

  // A change writes into the transaction and returns OK. If it returns an error, nothing of it
  // happens. It may be run again if others that share its commit fail.
  using Change = absl::FunctionRef<absl::Status(LmdbTransaction&, StoreTotals&)>;

  // What happens after the disk fails to make a commit durable. A full disk does not count: then
  // nothing was written, and each change is tried alone.
  enum class AfterDiskFailure {
    kTryAgain,  // Each change is tried alone; later ones are tried as usual.
    kRefuse,    // All changes of the commit and all later ones fail.
  };

  // `environment` and `observer` (may be null) must outlive it.
  GroupCommit(const LmdbEnvironment* environment, CommitObserver* observer,
              AfterDiskFailure after_disk_failure = AfterDiskFailure::kTryAgain)
      : environment_(environment), observer_(observer), after_disk_failure_(after_disk_failure) {}

  // Must be called before the first Run().
  void SetTotals(const StoreTotals& totals);
  StoreTotals totals() const;

  // With kRefuse, the status of every change since the disk failed; until then OK.
  absl::Status failure() const;

  // Changes that wait for the end of a commit that they are not part of.
  size_t num_waiting() const;

  // Blocks until the change is durable or has failed. `num_bytes`: about what it writes. A change
  // without memory (std::bad_alloc) fails with RESOURCE_EXHAUSTED.
  absl::Status Run(Change change, uint64_t num_bytes);

  // The same for a change that nobody waits for; one thread at a time. The change runs on this
  // thread only. When its turn comes, it runs after all waiting changes and shares their commit.
  // Its turn comes when nobody commits, or after kCommitsBetween commits. It delays other changes
  // only by its own duration.
  absl::Status RunBehind(Change change);
  static constexpr size_t kCommitsBetween = 3;

 private:
  struct Waiter {
    Change change;
    uint64_t num_bytes;
    absl::Status status;
    bool is_done = false;
  };

  // The disk's result of one commit.
  struct Disk {
    absl::Status failure;                 // As failure_.
    std::optional<absl::Status> outcome;  // As in CommitSummary.
  };

  // Commits the waiting changes, and `last` unless it is null.
  void Commit(Waiter* last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Called without the lock, by the one thread that has set is_committing_.
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
  // A change waits in RunBehind(); the number of commits that went before it.
  bool is_behind_ ABSL_GUARDED_BY(mutex_) = false;
  size_t num_commits_before_ ABSL_GUARDED_BY(mutex_) = 0;
  StoreTotals totals_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_GROUP_COMMIT_H_
