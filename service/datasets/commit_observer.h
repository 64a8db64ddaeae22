// What the datasets room tells those who watch it.
#ifndef PACKHOUSE_SERVICE_DATASETS_COMMIT_OBSERVER_H_
#define PACKHOUSE_SERVICE_DATASETS_COMMIT_OBSERVER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace packhouse {

struct CommitSummary {
  uint64_t num_changes = 0;  // That share the commit: appends and whatever else writes.
  uint64_t num_bytes = 0;    // Of the records among them.
  bool is_durable = false;   // False: the disk refused, and each change is tried on its own.
  // What the disk said to the last transaction of it in which something was written. Nothing if
  // there was none: then this commit does not tell whether the store can be written to.
  std::optional<absl::Status> outcome = std::nullopt;
  // Of the largest change that shares it, whatever became of it.
  uint64_t largest_change = 0;
  // Of the first change that failed, unless that was its caller's mistake.
  absl::Status first_failure = absl::OkStatus();
};

// Watches one store. Calls come from one thread at a time, in pairs, and must be quick; the time
// between them is what a commit takes, most of it the disk's.
class CommitObserver {
 public:
  virtual ~CommitObserver() = default;

  virtual void OnCommitBegin() = 0;
  virtual void OnCommitEnd(const CommitSummary& summary) = 0;
  // Bytes of all data sets on disk, after each commit that changed it.
  virtual void OnStoreBytes(uint64_t num_bytes) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_COMMIT_OBSERVER_H_
