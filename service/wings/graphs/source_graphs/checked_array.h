// Arrays of stored graphs that are checked when they are used.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_CHECKED_ARRAY_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_CHECKED_ARRAY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace packhouse {

// The first damage that was found in a graph, and what is known to be sound of it. Outlives the
// graph's maps, so that nothing is checked twice. Thread-safe.
class GraphChecks {
 public:
  // `what` names the graph in messages: "source graph 'g'".
  explicit GraphChecks(std::string what) : what_(std::move(what)) {}
  GraphChecks(const GraphChecks&) = delete;
  GraphChecks& operator=(const GraphChecks&) = delete;

  const std::string& what() const { return what_; }
  // OK, or DATA_LOSS naming the graph, the array and the bytes.
  absl::Status damage() const;
  // Keeps the first. Gives DATA_LOSS with the graph's name and `why`.
  absl::Status Add(absl::string_view why);

 private:
  const std::string what_;
  mutable absl::Mutex mutex_;
  absl::Status damage_ ABSL_GUARDED_BY(mutex_);
};

// What one array was sealed with: a CRC32C for each block. Thread-safe.
class ArrayChecks {
 public:
  static constexpr uint64_t kBlockBytes = uint64_t{1} << 20;

  // `block_crcs` of each kBlockBytes; of the rest in the last. The graph's checks must outlive it.
  ArrayChecks(std::string name, std::vector<uint32_t> block_crcs, GraphChecks* graph)
      : name_(std::move(name)),
        block_crcs_(std::move(block_crcs)),
        is_sound_(block_crcs_.size()),
        graph_(graph) {}

  // Whether bytes [begin, end) of `array` are those that were sealed: DATA_LOSS as
  // GraphChecks::damage() if not. The blocks that have them are read once, all later calls are
  // O(blocks) and wait for nobody. Two calls at once may read a block twice.
  absl::Status Check(absl::string_view array, uint64_t begin, uint64_t end) const {
    for (uint64_t block = begin / kBlockBytes; block * kBlockBytes < end; ++block) {
      if (block < is_sound_.size() && is_sound_[block].load(std::memory_order_relaxed)) continue;
      if (absl::Status sound = CheckBlock(array, block); !sound.ok()) return sound;
    }
    return absl::OkStatus();
  }
  absl::Status Damaged(absl::string_view why) const;

 private:
  absl::Status CheckBlock(absl::string_view array, uint64_t block) const;

  const std::string name_;
  const std::vector<uint32_t> block_crcs_;
  mutable std::vector<std::atomic<bool>> is_sound_;
  GraphChecks* const graph_;
};

// A mapped array with its checks. Views both. Copied as a value; null if there is nothing to check,
// as of arrays that were made in memory.
class CheckedArray {
 public:
  CheckedArray() = default;
  CheckedArray(absl::string_view bytes, const ArrayChecks* checks)
      : bytes_(bytes), checks_(checks) {}

  bool has_checks() const { return checks_ != nullptr; }
  uint64_t size() const { return bytes_.size(); }
  // Requires begin <= end <= size() if it has checks.
  absl::Status Check(uint64_t begin, uint64_t end) const {
    return checks_ == nullptr ? absl::OkStatus() : checks_->Check(bytes_, begin, end);
  }
  absl::Status CheckAll() const { return Check(0, bytes_.size()); }
  // Something in it cannot be. Requires checks.
  absl::Status Damaged(absl::string_view why) const { return checks_->Damaged(why); }

 private:
  absl::string_view bytes_;
  const ArrayChecks* checks_ = nullptr;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_CHECKED_ARRAY_H_
