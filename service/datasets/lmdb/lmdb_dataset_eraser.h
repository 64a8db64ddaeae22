// Gives back the space of deleted data sets, on a thread of its own.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_DATASET_ERASER_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_DATASET_ERASER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/datasets/lmdb/group_commit.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/datasets/lmdb/lmdb_transaction.h"

namespace packhouse {

// Erases a deleted data set once nobody reads it, some of it a commit, so that appends wait for one
// small commit at most (GroupCommit::RunBehind); what it must read from the disk for that it reads
// before. A deletion is durable by its tombstone, which goes with the last of what it stands for: a
// crash at any moment, or Stop(), leaves the rest to the next start.
//
// Nothing here but Start()'s thread waits for the disk: Add() and Unpin() return at once, whichever
// thread lets go of the last reader. Thread-safe.
class LmdbDatasetEraser {
 public:
  // What is erased in one commit.
  static constexpr size_t kMaxKeys = 512;
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  // After a disk that refuses, unless something new is to be erased before.
  static constexpr absl::Duration kRetryInterval = absl::Seconds(10);

  // Both must outlive it.
  LmdbDatasetEraser(const LmdbEnvironment* environment, GroupCommit* commits)
      : environment_(environment), commits_(commits) {}
  ~LmdbDatasetEraser() { Stop(); }

  // At most once. Without it nothing is ever erased, as in a store that is only read.
  void Start();
  // Returns when the commit that is under way has ended. What is not erased by then stays.
  void Stop();

  // A deleted data set.
  void Add(uint64_t dataset);

  // A data set that is pinned is not erased. As often unpinned as pinned.
  void Pin(uint64_t dataset);
  void Unpin(uint64_t dataset);

  // Commits that have given space back.
  uint64_t num_steps() const;
  // Waits for one more than `seen`. False if there is none to come for now: nothing that could be
  // erased is left, or the disk refuses.
  bool WaitForStep(uint64_t seen) const;
  // Waits until nothing that could be erased is left. Otherwise what the disk says.
  absl::Status WaitUntilErased() const;

 private:
  // Some of a data set: what is erased in the next commit.
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

  // One that may be erased now; 0 if there is none.
  uint64_t Erasable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Something is erased, or will be.
  bool IsBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !is_stopping_ && is_started_ && refusal_.ok() && Erasable() != 0;
  }

  const LmdbEnvironment* const environment_;
  GroupCommit* const commits_;
  std::thread thread_;

  mutable absl::Mutex mutex_;
  bool is_started_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::btree_map<uint64_t, uint64_t> num_pins_ ABSL_GUARDED_BY(mutex_);
  // Deleted, and not erased in full.
  absl::btree_set<uint64_t> deleted_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  // What the last commit failed with, until there is a reason to try again.
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_LMDB_DATASET_ERASER_H_
