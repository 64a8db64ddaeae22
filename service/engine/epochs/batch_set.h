// Sets of batch numbers, kept as runs; for example the acknowledged batches.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_BATCH_SET_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_BATCH_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/types/span.h"

namespace packhouse {

// The numbers from begin to end - 1.
struct BatchRun {
  uint64_t begin;
  uint64_t end;

  friend bool operator==(const BatchRun&, const BatchRun&) = default;
};

// Workers acknowledge batches nearly in order, so that there are about as many runs as batches in
// flight: O(runs) memory; each operation is O(log runs) unless it says otherwise.
// Thread-compatible.
class BatchSet {
 public:
  BatchSet() = default;
  static BatchSet Of(absl::Span<const uint64_t> batches);

  // False if it was already there.
  bool Insert(uint64_t batch);
  // Adds a whole run, amortized O(log runs). An empty run is no change.
  void InsertRun(const BatchRun& run);
  // O(runs of `other`).
  void InsertAll(const BatchSet& other);

  bool Contains(uint64_t batch) const;
  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t num_runs() const { return runs_.size(); }
  // One more than the largest; 0 if there is none.
  uint64_t end() const { return runs_.empty() ? 0 : runs_.rbegin()->second; }

  // Ascending, not empty, with gaps between them.
  std::vector<BatchRun> Runs() const;
  // Those below `end`, and how many they are. O(runs).
  BatchSet Below(uint64_t end) const;
  uint64_t SizeBelow(uint64_t end) const;
  // The numbers from begin to end - 1 (below 2^32) that are not in the set, ascending. O(end -
  // begin + runs).
  std::vector<uint32_t> Missing(uint64_t begin, uint64_t end) const;

  friend bool operator==(const BatchSet& a, const BatchSet& b) { return a.runs_ == b.runs_; }

 private:
  absl::btree_map<uint64_t, uint64_t> runs_;  // Begin to end.
  uint64_t size_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_BATCH_SET_H_
