// Fourth step of a plan: the items that its batches are made of.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_ITEMS_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/graph_selection.h"
#include "service/engine/epochs/group_items.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// A graph, or a group of graphs, that no batch can hold, or a graph that is too small for one.
struct OversizeItem {
  // Stands for a component if rows fit, but the tensors have too many bytes: then `value` and
  // `bound` are bytes.
  static constexpr size_t kBytes = SIZE_MAX;

  // The id of the graph or of the group.
  uint64_t id = 0;
  // Component l is `graphs`.
  size_t component = 0;
  uint64_t value = 0;
  uint64_t bound = 0;
  // It has fewer rows than `bound`, a minimum.
  bool is_too_small = false;

  friend bool operator==(const OversizeItem&, const OversizeItem&) = default;
};

// Items that are left out because no batch can hold them.
struct Oversize {
  static constexpr size_t kMaxListed = 100;

  uint64_t num_graphs = 0;
  // The first of these items.
  std::vector<OversizeItem> items;
  // num_graphs by data set of a mixture; empty for others.
  std::vector<uint64_t> by_dataset;
};

// Graphs, or groups of graphs, each of which a batch can hold.
struct EpochItems {
  // Holds the memory of `numbers`.
  MemoryHold memory;
  // For graphs, their places in the data set, ascending or in the order of drawing. For groups,
  // their numbers in `groups`.
  std::vector<uint32_t> numbers;
  // Set if the items are groups.
  std::optional<GroupItems> groups;
  Oversize oversize;
};

// The selected graphs that fit one of `limits`. `sizes` are the reader's graphs, with packed sizes
// if there are minimums; `last` is the shape of the last limits, for messages.
//
// OUT_OF_RANGE naming the first that fits none, if that is an error, with its rows and the bound;
// RESOURCE_EXHAUSTED and CANCELLED as `making`. O(graphs).
absl::StatusOr<EpochItems> GraphsThatFit(const DatasetReader& reader, const ItemSizes& sizes,
                                         const GraphSelection& selection,
                                         absl::Span<const Limits> limits, const BatchShape& last,
                                         bool oversize_is_error, const Making& making);

// The same for groups of the selected graphs of a grouped data set.
absl::StatusOr<EpochItems> GroupsThatFit(const DatasetReader& reader,
                                         const GraphSelection& selection, const Limits& limits,
                                         bool oversize_is_error, const Making& making);

// Replaces `items`, which must be graphs of `selection` in ascending order, by those that are drawn
// from them.
//
// Errors: INVALID_ARGUMENT for more than ItemSizes::kMaxItems, for weights of another number than
// there are selected graphs, naming both, as IntegerWeights(), or, without replacement, for more
// than there are; RESOURCE_EXHAUSTED and CANCELLED as `making`. O(graphs).
absl::Status DrawItems(const WeightedDraw& draw, const EpochSeed& seed,
                       const GraphSelection& selection, const Making& making, EpochItems& items);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_ITEMS_H_
