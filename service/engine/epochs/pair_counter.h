// Pairs of items that share a batch of one epoch and one of another: for their company.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PAIR_COUNTER_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PAIR_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace packhouse {

// An item that the other epoch does not have is in this batch of it.
inline constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();

inline constexpr uint64_t PairsOf(uint64_t items) { return items * (items - 1) / 2; }

// Counts pairs of items that share a batch of another epoch. 4 bytes for each of its batches.
class PairCounter {
 public:
  // `batch_of`, by item number, must outlive this.
  PairCounter(const std::vector<uint32_t>& batch_of, size_t num_batches)
      : batch_of_(batch_of), items_of_batch_(num_batches, 0) {}

  // O(items).
  uint64_t Together(absl::Span<const uint32_t> items) {
    uint64_t pairs = 0;
    for (const uint32_t item : items) {
      if (const uint32_t b = BatchOf(item); b != kNowhere) pairs += items_of_batch_[b]++;
    }
    for (const uint32_t item : items) {
      if (const uint32_t b = BatchOf(item); b != kNowhere) items_of_batch_[b] = 0;
    }
    return pairs;
  }

 private:
  uint32_t BatchOf(uint32_t item) const {
    return item < batch_of_.size() ? batch_of_[item] : kNowhere;
  }

  const std::vector<uint32_t>& batch_of_;
  std::vector<uint32_t> items_of_batch_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PAIR_COUNTER_H_
