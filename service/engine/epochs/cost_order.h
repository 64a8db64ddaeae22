// Epochs whose batches come in steps of like cost (algorithms/planning/step_order.h): what a
// request asks for, what its batches cost, and their order.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_COST_ORDER_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_COST_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/batch_cost.h"
#include "service/algorithms/planning/step_order.h"
#include "service/engine/epochs/epoch_batches.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// INVALID_ARGUMENT naming a rank group without ranks or, if costs are those of devices, one without
// a device.
absl::Status CheckCostOrder(const EpochRequest& request);

// EpochIdentity::options has these words of an epoch whose costs are those of devices, besides the
// request's: "; costs 1*c0 | 2*c0". Empty for other epochs.
std::string DeviceCostWords(const EpochRequest& request);

// An epoch that was begun is ordered by the costs with which it was, whatever is measured now.
void KeepCosts(const EpochIdentity& begun, EpochRequest& request);

// For a part of an epoch, whose first batch of each rank group is this one of the epoch: sets how
// many of its batches fill steps that others have begun. Does nothing unless the request asks for
// steps of like cost.
void BeginAt(absl::Span<const uint64_t> first_batches, EpochRequest& request);

// Adds what a graph of these sizes has, as CostOrder::AddItem, without `graphs`' square.
void AddGraph(absl::Span<const uint32_t> sizes, absl::Span<uint64_t> rows,
              absl::Span<uint64_t> squares);

// Immutable; thread-safe.
class CostOrder {
 public:
  // Adds the rows of an item (`graphs` last) and, unless there are none, the squares of its graphs.
  using AddItem = absl::FunctionRef<void(uint32_t item, absl::Span<uint64_t> rows,
                                         absl::Span<uint64_t> squares)>;

  // `request` has passed CheckCostOrder(), and asks for such an order.
  explicit CostOrder(const EpochRequest& request);

  // Gives the batches of each rank group other numbers of it: `shapes` and `add` say what they
  // cost. Depends on the arguments alone. RESOURCE_EXHAUSTED and CANCELLED as `making`. O(items +
  // n log n) for n batches; 4 bytes for each item and 40 for each batch.
  absl::Status Order(const EpochShapes& shapes, AddItem add, const EpochSeed& seed,
                     const Making& making, EpochBatches& batches) const;
  // Of batches that Order() has ordered. The same errors and cost.
  absl::StatusOr<StepFigures> Figures(const EpochShapes& shapes, AddItem add, const EpochSeed& seed,
                                      const Making& making, const EpochBatches& batches) const;

 private:
  // Of each batch, in a unit of the epoch; `batches` may have any order.
  absl::StatusOr<std::vector<uint64_t>> CostsOf(const EpochShapes& shapes, AddItem add,
                                                const Making& making,
                                                const EpochBatches& batches) const;

  // By rank group.
  std::vector<BatchCost> costs_;
  std::vector<uint32_t> num_ranks_;
  const std::vector<uint32_t> num_first_;  // Of a part of an epoch, by rank group, or empty.
  // Devices compute padding, too.
  bool counts_padding_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_COST_ORDER_H_
