// Epochs whose batches come by a score of their graphs, as a curriculum: from low scores to high
// ones, in buckets.
//
// A plan says which sizes share a batch. So batches are sorted by the mean score of their graphs
// and cut into buckets; then graphs of one size change places, so that those with lower scores are
// in earlier buckets. Limits, shapes and the number of batches are those of a shuffle.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SCORE_ORDER_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SCORE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/size_classes.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Whether a tensor can be a score: it has one number for each graph.
bool IsScore(const GraphSchema& schema, size_t tensor);

// Immutable; thread-safe. 8 bytes for each item that there is, reserved as long as it lives.
class ScoreOrder {
 public:
  // The graphs of an item, by their places in the data set; valid until the next call.
  using GraphsOf = absl::FunctionRef<absl::Span<const uint32_t>(uint32_t item)>;

  // Reads the scores of `items`, of which there are `num_items` in all. The request's tensor
  // IsScore(). INVALID_ARGUMENT naming a graph whose score is not finite; DATA_LOSS as the reader;
  // RESOURCE_EXHAUSTED and CANCELLED as `making`. O(items); of a tensor it reads each graph.
  static absl::StatusOr<ScoreOrder> Create(const ByScoreRequest& request,
                                           const DatasetReader& reader,
                                           absl::Span<const uint32_t> items, size_t num_items,
                                           GraphsOf graphs_of, const Making& making);

  // The same for all items of these sizes, whose score is their rows of the request's component.
  static absl::StatusOr<ScoreOrder> OfSizes(const ByScoreRequest& request, const ItemSizes& sizes,
                                            const Making& making);

  uint64_t bytes() const { return memory_bytes_; }

  // Orders the batches of each rank group, which were drawn from `classes` and are in random order,
  // and gives items of a size other places of it. Within a bucket, and among equal scores, all
  // places and orders are equally likely. If each batch is a bucket, mean scores ascend.
  //
  // Depends on the arguments alone. RESOURCE_EXHAUSTED and CANCELLED as `making`. O(n log n) for n
  // items; while it works 4 bytes for each item that there is, 16 for each item of a batch and 20
  // for each batch.
  absl::Status Order(const SizeClasses& classes, const EpochSeed& seed, const Making& making,
                     EpochBatches& batches) const;

 private:
  ScoreOrder() = default;

  // Without the scores.
  static absl::StatusOr<ScoreOrder> Begin(const ByScoreRequest& request, size_t num_items,
                                          const Making& making);

  MemoryHold memory_;
  uint64_t memory_bytes_ = 0;
  // By item; the other way round if high scores come first.
  std::vector<double> scores_;
  uint32_t num_buckets_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SCORE_ORDER_H_
