// Knows whether a store can be written to, and logs when it cannot.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_STORE_WATCH_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_STORE_WATCH_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "service/base/limited_log.h"
#include "service/stores/datasets/commit_observer.h"

namespace packhouse {

// Stands between a store and its other observer. Logs each failed commit and change, and the first
// commit that succeeds again. Thread-safe.
class StoreWatch final : public CommitObserver {
 public:
  // `store` is its name in the log. `next` gets all calls; it may be null. The pointees must
  // outlive it.
  StoreWatch(std::string store, CommitObserver* next, LimitedLog* log)
      : store_(std::move(store)), next_(next), log_(log) {}

  void OnCommitBegin() override;
  void OnCommitEnd(const CommitSummary& summary) override;
  void OnStoreBytes(uint64_t num_bytes) override;

  // The error of the last commit that wrote something; OK if it succeeded, or if there was none
  // yet.
  absl::Status failure() const;
  // Bytes of the largest change in that commit: a commit is worth trying when there is this much
  // room. On a full disk small changes succeed now and then, in pages that others have left.
  uint64_t failed_bytes() const;

 private:
  // Constant after construction.
  const std::string store_;
  CommitObserver* const next_;
  LimitedLog* const log_;

  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  uint64_t failed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_STORE_WATCH_H_
