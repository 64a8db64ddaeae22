// Watches whether the sizes of the graphs of open data sets change.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_DATASET_DRIFTS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_DATASET_DRIFTS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "packhouse/v1/dataset.pb.h"
#include "service/algorithms/histograms/drift_detector.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/memory_budget.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// The data sets that were appended to last, each with a detector of some ten kilobytes for each
// component. Of a chunk with many graphs some are compared, at equal distances, so that the watch
// costs little beside the append. All watches have at most a small share of the memory, or there is
// one. Where there is no memory, nothing is watched. Of sealed data sets nothing but the latest
// change is kept, if there is one. Thread-safe.
class DatasetDrifts {
 public:
  static constexpr size_t kMostDatasets = 256;
  static constexpr uint64_t kShareOfMemory = 64;
  static constexpr size_t kMostGraphsOfChunk = 512;
  // Of a reference, and those that a change is described from.
  static constexpr uint64_t kGraphs = 2000;

  // `memory` must outlive this; null: it has no bound.
  explicit DatasetDrifts(MemoryBudget* memory) : memory_(memory) {}

  // To be called before the first append of a stream. `store` has the data set. O(d) for the first
  // stream, else O(1); the sizes that are there are held from `memory` while they are read.
  void Open(const DatasetInfo& info, const DatasetStore& store);
  // After an append to the data set with this id, whose first graph is number `first_graph`.
  void Observe(uint64_t id, const SizeTable& sizes, uint64_t first_graph);
  // The data set is sealed: nothing more is observed, and what was told of it stays.
  void EndWatch(uint64_t id);
  // The data set is deleted.
  void Forget(uint64_t id);

  // False if no change was found. `schema`: of the data set.
  bool ToWire(uint64_t id, const SizeSchema& schema, v1::DatasetDrift& wire) const;

 private:
  // What is known of a data set; see dataset_drifts.cc.
  class Watch;
  using Watches = std::list<std::pair<uint64_t, std::shared_ptr<Watch>>>;

  std::shared_ptr<Watch> Find(uint64_t id) const;
  // As Find(); the data set is the latest from then on.
  std::shared_ptr<Watch> Use(uint64_t id);
  void Remove(Watches::iterator watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // More than there may be.
  bool AreTooMany() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemoryBudget* const memory_;
  mutable absl::Mutex mutex_;
  Watches watches_ ABSL_GUARDED_BY(mutex_);  // The latest first.
  absl::flat_hash_map<uint64_t, Watches::iterator> by_id_ ABSL_GUARDED_BY(mutex_);
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // By all watches.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_DATASET_DRIFTS_H_
