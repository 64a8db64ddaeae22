// The graphs of an epoch one after the other, batch by batch.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_ORDER_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/dealing.h"
#include "service/engine/epochs/prepared_epoch.h"

namespace packhouse {

// Stands at one graph of the order, first at graph 0. The order is that of the steps and, within a
// step, of the ranks; padding has no graphs. Thread-compatible.
class EpochOrder {
 public:
  // `ranks` share the epoch. INVALID_ARGUMENT and FAILED_PRECONDITION as Dealing;
  // RESOURCE_EXHAUSTED if `memory`, which may be null, has no room. O(batches).
  static absl::StatusOr<EpochOrder> Create(std::shared_ptr<const PreparedEpoch> epoch,
                                           Sharing ranks, MemoryBudget* memory);

  const PreparedEpoch& epoch() const { return *epoch_; }
  uint64_t num_graphs() const { return epoch_->plan().num_graphs(); }

  // Forward to the graph that is `count` further, at most to the end. O(batches between).
  void Advance(uint64_t count);
  // The graph, by its place in the data set. Requires that this is not the end.
  uint32_t graph() const { return graphs_[next_]; }

 private:
  EpochOrder(std::shared_ptr<const PreparedEpoch> epoch, Dealing dealing)
      : epoch_(std::move(epoch)), dealing_(std::move(dealing)) {}

  // Takes up the batch at the place where this stands, and those after it until one has graphs.
  // Leaves out `skip` graphs.
  void TakeUp(uint64_t skip);

  std::shared_ptr<const PreparedEpoch> epoch_;
  Dealing dealing_;
  // The number of places before the batch's, counted step by step.
  uint64_t place_ = 0;
  std::vector<uint32_t> graphs_;
  size_t next_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_EPOCH_ORDER_H_
