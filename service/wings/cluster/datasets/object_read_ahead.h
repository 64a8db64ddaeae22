// Reads parts of objects one after the other, several at once.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_READ_AHEAD_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_READ_AHEAD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/base/caller.h"
#include "service/base/execution.h"
#include "service/stores/objects/object_store.h"
#include "service/wings/cluster/datasets/object_engines.h"

namespace packhouse {

// Small objects of a store take a round trip each, so many are read at once
// (ObjectEngines::reads_at_once). One thread uses it, for one call (base/caller.h): when the call
// is gone, reads end. The threads that help begin with the first Next() and end with this. While
// other calls have all threads of the store, Next() itself reads, one part at a time.
class ObjectReadAhead {
 public:
  struct Part {
    std::string key;
    uint64_t begin = 0;
  };
  // Parts that were read and not taken have at most so many bytes together; one may be larger.
  static constexpr uint64_t kMaxBytes = uint64_t{4} << 20;

  // `part_of(i)` says where part i is, of sizes[i] bytes; a part without bytes is not read. Any
  // thread calls it. What it uses must outlive this.
  ObjectReadAhead(const ObjectEngines& engines, std::vector<uint64_t> sizes,
                  std::function<Part(size_t)> part_of);
  // Gives up what is being read.
  ~ObjectReadAhead();
  ObjectReadAhead(const ObjectReadAhead&) = delete;
  ObjectReadAhead& operator=(const ObjectReadAhead&) = delete;

  // At most the bytes of what it has read.
  uint64_t bytes() const { return most_bytes_; }

  // The next part, of which there must be one; shorter if the object is. Errors as
  // ObjectStore::Get(), CANCELLED, RESOURCE_EXHAUSTED without memory: always of the first part that
  // fails, in the order of the parts. Nothing comes after an error but the same.
  absl::StatusOr<std::string> Next();

 private:
  // The call, or nobody once this is being destroyed.
  class Reading final : public Caller {
   public:
    Reading(const Caller* caller, const std::atomic<bool>* is_over)
        : caller_(caller), is_over_(is_over) {}
    bool IsGone() const override { return *is_over_ || (caller_ != nullptr && caller_->IsGone()); }

   private:
    const Caller* const caller_;
    const std::atomic<bool>* const is_over_;
  };
  struct Slot {
    bool is_read = false;
    absl::StatusOr<std::string> bytes;
  };

  // Begins threads, as many as the store has for it: perhaps none.
  void Start();
  void Run(const Caller* caller);
  absl::StatusOr<std::string> Read(size_t number) const;
  // Whether a thread need not wait: the next part may be read, or nothing will be any more.
  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsNextRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return slots_[next_to_take_ % slots_.size()].is_read;
  }

  const ObjectEngines& engines_;
  const std::vector<uint64_t> sizes_;
  const std::function<Part(size_t)> part_of_;
  uint64_t most_bytes_ = 0;
  // Of the one thread that takes.
  absl::Status failure_;
  size_t num_unread_ = 0;  // Until there are threads: parts with bytes.
  std::vector<Thread> threads_;

  std::atomic<bool> is_over_ = false;
  mutable absl::Mutex mutex_;
  // A ring, by the numbers of the parts.
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  size_t next_to_read_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_to_take_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of those that are read or being read, and not taken.
  uint64_t bytes_ahead_ ABSL_GUARDED_BY(mutex_) = 0;
  // Nothing more is begun.
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_READ_AHEAD_H_
