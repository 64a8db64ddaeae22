#include "service/engine/epochs/epoch_order.h"

#include "service/base/status_macros.h"

namespace packhouse {

absl::StatusOr<EpochOrder> EpochOrder::Create(std::shared_ptr<const PreparedEpoch> epoch,
                                              Sharing ranks, MemoryBudget* memory) {
  const EpochIdentity& identity = epoch->identity();
  MemoryHold hold;
  if (memory != nullptr) {
    PH_ASSIGN_OR_RETURN(hold, memory->Hold("how an epoch is dealt",
                                           Dealing::MostBytes(identity.num_batches(),
                                                              identity.rank_groups.size(), ranks)));
  }
  PH_ASSIGN_OR_RETURN(Dealing dealing,
                      Dealing::Create(identity.first_batches(), BatchSet(), std::move(ranks)));
  dealing.Keep(std::move(hold));
  EpochOrder order(std::move(epoch), std::move(dealing));
  order.TakeUp(0);
  return order;
}

void EpochOrder::Advance(uint64_t count) {
  const uint64_t left = graphs_.size() - next_;
  if (count < left) {
    next_ += count;
    return;
  }
  if (place_ == dealing_.num_places()) return;
  ++place_;
  TakeUp(count - left);
}

void EpochOrder::TakeUp(uint64_t skip) {
  graphs_.clear();
  next_ = 0;
  for (; place_ < dealing_.num_places(); ++place_) {
    const uint64_t ranks = dealing_.num_lanes();
    const uint64_t batch =
        dealing_.BatchAt({static_cast<uint32_t>(place_ % ranks), place_ / ranks});
    if (dealing_.IsPadding(batch)) continue;
    const uint64_t graphs = epoch_->NumGraphs(batch);
    if (skip < graphs) {
      graphs_ = epoch_->GraphsOf(batch);
      next_ = skip;
      return;
    }
    skip -= graphs;
  }
}

}  // namespace packhouse
