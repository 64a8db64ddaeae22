// What the datasets room tells those who watch it.
#ifndef PACKHOUSE_SERVICE_DATASETS_COMMIT_OBSERVER_H_
#define PACKHOUSE_SERVICE_DATASETS_COMMIT_OBSERVER_H_

#include <cstdint>

namespace packhouse {

struct CommitSummary {
  uint64_t num_changes = 0;  // That share the commit: appends and whatever else writes.
  uint64_t num_bytes = 0;    // Of the records among them.
  bool is_durable = false;   // False: the disk refused, and each change is tried on its own.
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
