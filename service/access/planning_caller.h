// A call that plans, as the code that waits for other machines sees it.
#ifndef PACKHOUSE_SERVICE_ACCESS_PLANNING_CALLER_H_
#define PACKHOUSE_SERVICE_ACCESS_PLANNING_CALLER_H_

#include "service/access/planning_pool.h"
#include "service/base/caller.h"

namespace packhouse {

// While it waits for a store, its turn is for others: as many calls may wait as the pool lets
// begin, and plans that need no store are made meanwhile. It waits for a turn again at the next
// PlanningTurn::YieldTurn().
class PlanningCaller final : public Caller {
 public:
  // The turn must outlive it. Before its job was submitted there is no turn to give up.
  explicit PlanningCaller(PlanningTurn* turn) : turn_(turn) {}

  bool IsGone() const override { return turn_->cancelled(); }
  void OnWait() override { turn_->LeaveTurn(); }

 private:
  PlanningTurn* const turn_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ACCESS_PLANNING_CALLER_H_
