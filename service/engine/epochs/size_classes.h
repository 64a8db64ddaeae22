// The items of an epoch, sorted by size: a plan is made for them, and its places are filled from
// them.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SIZE_CLASSES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SIZE_CLASSES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// Items with the same size tuple are a class. Classes are numbered by ascending tuple, like the
// tuples of a plan for Histogram(). Depends only on the data set and the selection, so all epochs
// share it. Immutable; thread-safe. 4 bytes for each item and 4 * l + 4 for each class, reserved as
// long as it lives.
class SizeClasses {
 public:
  // The classes of all items, or of those that `selection` lists; an item that is listed twice
  // counts twice. Within a class, items come in the order of the selection.
  //
  // INVALID_ARGUMENT naming a selected item that does not exist, or for a selection of more than
  // ItemSizes::kMaxItems; RESOURCE_EXHAUSTED and CANCELLED as `making`. O(n + d log d) expected for
  // d distinct sizes. While it is made, 4 more bytes for each item, and some hundred for each
  // class.
  static absl::StatusOr<SizeClasses> Create(
      const ItemSizes& sizes, std::optional<absl::Span<const uint32_t>> selection = std::nullopt,
      const Making& making = {});

  size_t num_components() const { return num_components_; }
  size_t num_items() const { return items_.size(); }
  // The memory that it takes.
  uint64_t bytes() const {
    return sizeof(uint32_t) * (tuples_.capacity() + starts_.capacity() + items_.capacity());
  }
  size_t num_classes() const { return starts_.size() - 1; }

  // The tuples of all classes, row-major: PackingPlan::tuples of a plan for Histogram().
  absl::Span<const uint32_t> tuples() const { return tuples_; }
  absl::Span<const uint32_t> tuple(size_t number) const {
    return tuples().subspan(number * num_components_, num_components_);
  }
  // The item numbers of a class, in the data set.
  absl::Span<const uint32_t> items(size_t number) const {
    return absl::MakeConstSpan(items_).subspan(starts_[number],
                                               starts_[number + 1] - starts_[number]);
  }

  // RESOURCE_EXHAUSTED as SizeHistogram, if some component's total exceeds 2^64 - 1: impossible
  // with fewer than 2^32 items of 32 bits.
  // CANCELLED as `making`. The caller has reserved its memory (SizeHistogram::BytesFor).
  absl::StatusOr<SizeHistogram> Histogram(const Making& making = {}) const;

 private:
  SizeClasses() = default;

  MemoryHold memory_;
  size_t num_components_ = 0;
  std::vector<uint32_t> tuples_;  // Row-major.
  std::vector<uint32_t> starts_;  // In items_, by class, and their end.
  std::vector<uint32_t> items_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SIZE_CLASSES_H_
