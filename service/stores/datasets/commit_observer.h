// What this room tells observers.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_COMMIT_OBSERVER_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_COMMIT_OBSERVER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace packhouse {

struct CommitSummary {
  uint64_t num_changes = 0;  // Changes that share the commit: appends and all others that write.
  uint64_t num_bytes = 0;    // Of the records among them.
  bool is_durable = false;   // False: the disk refused, and each change is tried alone.
  // The disk's answer to the commit's last transaction that wrote something. nullopt if nothing was
  // written: then this commit does not show whether the store can be written to.
  std::optional<absl::Status> outcome = std::nullopt;
  // Bytes of the largest change of the commit, whether it succeeded or not.
  uint64_t largest_change = 0;
  // Error of the first change that failed, except for a caller's mistake.
  absl::Status first_failure = absl::OkStatus();
};

// Watches one store. Calls come from one thread at a time, in pairs, and must be quick. The time
// between the two calls is the duration of a commit, mostly the disk's.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;

  virtual void OnCommitBegin() = 0;
  virtual void OnCommitEnd(const CommitSummary& summary) = 0;
  // Bytes of all data sets on disk, after each commit that changed them.
  virtual void OnStoreBytes(uint64_t num_bytes) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_COMMIT_OBSERVER_H_
