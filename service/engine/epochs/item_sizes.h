// The sizes of an epoch's items.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_ITEM_SIZES_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_ITEM_SIZES_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// The tuples of n items in data set order; a view, valid as long as the counts that it points to.
// An item is a graph with its l counts, or a group of graphs (group_items.h) with l + 1.
class ItemSizes {
 public:
  // Item numbers have 32 bits.
  static constexpr size_t kMaxItems = std::numeric_limits<uint32_t>::max();

  // `counts` is row-major. INVALID_ARGUMENT unless there are num_items * num_components counts, or
  // for more than kMaxItems items.
  static absl::StatusOr<ItemSizes> Create(size_t num_items, size_t num_components,
                                          absl::Span<const uint32_t> counts);

  size_t num_items() const { return num_items_; }
  size_t num_components() const { return num_components_; }
  absl::Span<const uint32_t> tuple(size_t item) const {
    return counts_.subspan(item * num_components_, num_components_);
  }

 private:
  ItemSizes(size_t num_items, size_t num_components, absl::Span<const uint32_t> counts)
      : num_items_(num_items), num_components_(num_components), counts_(counts) {}

  size_t num_items_;
  size_t num_components_;
  absl::Span<const uint32_t> counts_;
};

// The sizes of the graphs of a reader with at most kMaxItems graphs. Valid as long as the reader.
ItemSizes SizesOfGraphs(const DatasetReader& reader);

// Adds the rows of `copies` items of this size to `rows` (per component, `graphs` last). A group's
// tuple has its number of graphs; a graph counts as one.
inline void AddRows(absl::Span<const uint32_t> tuple, uint64_t copies, absl::Span<uint64_t> rows) {
  for (size_t k = 0; k < tuple.size(); ++k) rows[k] += copies * tuple[k];
  if (tuple.size() < rows.size()) rows.back() += copies;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_ITEM_SIZES_H_
