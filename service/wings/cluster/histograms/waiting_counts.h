// Counts of streams that nobody waits for, until they are in the store of a cluster.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_WAITING_COUNTS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_WAITING_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"

namespace packhouse {

// One sum for each histogram. Thread-safe; never waits for the store.
class WaitingCounts {
 public:
  // Of all histograms.
  static constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
  static constexpr size_t kMaxHistograms = 1024;
  // A sum that would become a larger run is not put back. Half of it should be taken.
  static constexpr uint64_t kMostOfRun = uint64_t{1} << 20;

  struct Counts {
    HistogramKey key;
    SizeHistogram sizes;
    absl::Time now;
    uint64_t bytes = 0;
    MemoryHold memory = {};
  };

  // `memory` may be null; it must outlive this and all Counts.
  explicit WaitingCounts(MemoryBudget* memory) : memory_(memory) {}

  // Adds to what waits for the histogram. True if too much waits now, so that it should be taken.
  // With an error nothing changes: FAILED_PRECONDITION if what waits has other components or
  // another half-life; RESOURCE_EXHAUSTED.
  absl::StatusOr<bool> Add(const HistogramKey& key, SizeHistogram& sizes, absl::Time now);
  // What waits for the histogram waits no more.
  std::optional<Counts> Take(absl::string_view name);
  // What was taken waits on, if there is room for it. An error, `otherwise` or as Add(), if not.
  absl::Status PutBack(Counts& counts, const absl::Status& otherwise);
  // The first histogram after this name for which something waits.
  std::optional<std::string> NameAfter(absl::string_view name) const;

 private:
  absl::Status AddLocked(const HistogramKey& key, SizeHistogram& sizes, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryBudget* const memory_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Counts, std::less<>> counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_WAITING_COUNTS_H_
