// Gives back the space of deleted data sets, on a thread of its own.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_ERASER_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_ERASER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/execution.h"
#include "service/stores/lmdb/group_commit.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"

namespace packhouse {

// Erases a deleted data set once nobody reads it, a part in each commit, so that appends wait for
// at most one small commit (GroupCommit::RunBehind). It reads from the disk before the commit, not
// during it. A tombstone makes a deletion durable, and is erased with the last part. After a crash
// or Stop() the next start erases the rest.
//
// Only Start()'s thread waits for the disk: Add() and Unpin() return at once. Thread-safe.
class LmdbDatasetEraser {
 public:
  // The most that is erased in one commit.
  static constexpr size_t kMaxKeys = 512;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  // Time to the next try after the disk refused, unless there is something new to erase before.
  static constexpr absl::Duration kRetryInterval = absl::Seconds(10);

  // Both must outlive it.
  LmdbDatasetEraser(const LmdbEnvironment* environment, GroupCommit* commits)
      : environment_(environment), commits_(commits) {}
  ~LmdbDatasetEraser() { Stop(); }

  // May be called once. Without it nothing is ever erased, as in a store that is only read.
  void Start();
  // Returns when the present commit has ended. What is not erased by then stays.
  void Stop();

  // Adds a deleted data set.
  void Add(uint64_t dataset);

  // A pinned data set is not erased. Each Pin() needs an Unpin().
  void Pin(uint64_t dataset);
  void Unpin(uint64_t dataset);

  // The number of commits that have given space back.
  uint64_t num_steps() const;
  // Waits for more steps than `seen`. False if no more will come for now: nothing is left that
  // could be erased, or the disk refuses.
  bool WaitForStep(uint64_t seen) const;
  // Waits until nothing is left that could be erased. An error is the disk's.
  absl::Status WaitUntilErased() const;

 private:
  // The part of a data set that is erased in the next commit.
  struct Portion {
    std::vector<std::string> keys;
    uint64_t num_bytes = 0;
    bool is_last = false;
  };

  void Run();
  // Returns whether that was all.
  absl::StatusOr<bool> EraseSome(uint64_t dataset);
  absl::StatusOr<Portion> ReadPortion(uint64_t dataset) const;
  absl::Status ErasePortion(const Portion& portion, uint64_t dataset, LmdbTransaction& transaction,
                            StoreTotals& totals) const;

  // A data set that may be erased now; 0 if there is none.
  uint64_t Erasable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether something is being erased, or will be.
  bool IsBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !is_stopping_ && is_started_ && refusal_.ok() && Erasable() != 0;
  }

  const LmdbEnvironment* const environment_;
  GroupCommit* const commits_;
  Thread thread_;

  mutable absl::Mutex mutex_;
  bool is_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::btree_map<uint64_t, uint64_t> num_pins_ ABSL_GUARDED_BY(mutex_);
  // Data sets that are deleted and not completely erased.
  absl::btree_set<uint64_t> deleted_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  // The error of the last commit, until there is a reason to try again.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_LMDB_DATASET_ERASER_H_
