// A copy of a data set's graphs in memory, each graph in one run of bytes.
//
// A shuffled epoch visits graphs at random. In the store a graph lies in as many places as there
// are tensors, and each costs the latency of memory; here it lies in one, and in large pages. The
// copy is never needed: batches are the same without it. So it is made only where there is room to
// spare, beside the batches, and dropped as soon as others need its room.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_GATHERED_ROWS_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_GATHERED_ROWS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "service/base/execution.h"
#include "service/base/memory_budget.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Thread-safe. The memory must outlive it and all copies that it gave.
class GatheredRows {
 public:
  // All graphs. Immutable.
  class Copy {
   public:
    ~Copy();
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

    // Graphs lie anywhere: to be called some graphs before graph(i).
    void PrefetchPlace(size_t i) const { __builtin_prefetch(&places_[i]); }
    // The bytes of graph i of the data set, as GatheredGraph says.
    absl::string_view graph(size_t i) const {
      const uint64_t begin = places_[i] * kUnit;
      return absl::string_view(data_ + begin, places_[i + 1] * kUnit - begin);
    }

   private:
    friend class GatheredRows;
    static constexpr uint64_t kUnit = 8;

    Copy() = default;

    // Notifies as it is destroyed: declared before the memory, so after that was given back.
    class Ending {
     public:
      ~Ending() { gone_->Notify(); }
      std::shared_ptr<absl::Notification> gone() const { return gone_; }

     private:
      const std::shared_ptr<absl::Notification> gone_ = std::make_shared<absl::Notification>();
    };

    Ending ending_;
    MemoryHold memory_;
    char* data_ = nullptr;
    uint64_t mapped_bytes_ = 0;
    // Where graphs begin, in units, and the end of the last. Grows while they are copied.
    std::vector<uint32_t> places_;
    std::atomic<bool> is_wanted_ = true;
  };

  // If `memory` is null, memory is not bounded. Allocates nothing yet.
  GatheredRows(MemoryBudget* memory, std::shared_ptr<const DatasetReader> reader)
      : memory_(memory), reader_(std::move(reader)) {}
  // Waits for the copying of a graph.
  ~GatheredRows() { Drop(); }
  GatheredRows(const GatheredRows&) = delete;
  GatheredRows& operator=(const GatheredRows&) = delete;

  // The copy, once it has all graphs; until then null. O(1).
  std::shared_ptr<const Copy> Ready() const;

  // Counts the bytes of all graphs, for Make(). O(n); O(1) if it was done before.
  void Count();

  // Has the copy made, unless that is being done, or will never be. A thread of its own does it,
  // whose priority is low: it takes what nobody else wants of the machine's processors, and about a
  // tenth of one where all are busy (LowerPriority()). It begins only if no more than half of the
  // memory is held then. After an error of the reader there will be no copy: who needs the graph
  // learns of the error itself. Does not wait; O(n) for the first call without Count().
  void Make();

  // Lets go of the copy. Its memory is free once the batches that use it are made, or the graph
  // that is being copied is copied: then the result is notified. Null if there was no copy. It is
  // made again much later only.
  std::shared_ptr<absl::Notification> Drop();

  // Whether Ready() was asked for since the last call.
  bool WasUsed() { return was_used_.exchange(false, std::memory_order_relaxed); }

 private:
  // After it was dropped, so many calls of Make() do nothing. Many, since who waits for its
  // memory should come first, and may wait for the processor. It is a count, so no certainty.
  static constexpr uint32_t kCallsAfterDrop = 65'536;

  // Null if there is no room now, or if it can never be.
  std::shared_ptr<Copy> Begin();
  // The thread's. Ends early if the copy is not wanted any more.
  void CopyAll(std::shared_ptr<Copy> copy);
  absl::Status CopyGraphs(Copy& copy) const;

  MemoryBudget* const memory_;
  const std::shared_ptr<const DatasetReader> reader_;
  mutable std::atomic<bool> was_used_ = false;
  std::atomic<bool> is_over_ = false;  // It is ready, or never will be.
  std::atomic<bool> is_making_ = false;

  std::atomic<uint64_t> num_units_ = 0;  // Of all graphs; 0: not counted yet.

  mutable absl::Mutex mutex_;
  std::shared_ptr<Copy> copy_ ABSL_GUARDED_BY(mutex_);
  bool is_ready_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t calls_to_skip_ ABSL_GUARDED_BY(mutex_) = 0;
  // Drop() was called while a copy was begun.
  bool is_unwanted_ ABSL_GUARDED_BY(mutex_) = false;

  // Begun by who has set is_making_. Ends before the others do.
  Thread thread_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_GATHERED_ROWS_H_
