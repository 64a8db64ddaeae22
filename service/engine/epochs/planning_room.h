// Reserves the memory of planners.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PLANNING_ROOM_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PLANNING_ROOM_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/planning/plan_memory.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// For plans of one histogram, one after the other, until it is destroyed. Thread-compatible.
class PlanningRoom {
 public:
  // `making` must outlive it.
  PlanningRoom(const Making& making, uint64_t num_distinct, size_t num_components);
  PlanningRoom(const PlanningRoom&) = delete;
  PlanningRoom& operator=(const PlanningRoom&) = delete;

  // The histogram itself, while it grows.
  absl::Status HoldHistogram();
  // The memory of `planners` planners of this histogram, or of parts of it, that run at the same
  // time, with the histograms of the parts. RESOURCE_EXHAUSTED naming the sizes.
  absl::Status HoldPlans(size_t planners = 1);
  // The memory of the tuner.
  absl::Status HoldTuning();
  // For memory that planners ask for during planning.
  PlanMemory* memory() { return &patterns_; }

  // The reason why planning ended: if memory was refused, planners only report that they were given
  // up.
  const absl::Status& Reason(const absl::Status& status) const {
    return refusal_.ok() ? status : refusal_;
  }

  // Keeps `bytes` of the memory once planning has ended. RESOURCE_EXHAUSTED if that needs more than
  // is held and there is no room.
  absl::StatusOr<MemoryHold> Keep(uint64_t bytes);

 private:
  absl::Status Grow(absl::string_view what, uint64_t bytes);

  const Making& making_;
  const uint64_t num_distinct_;
  const size_t num_components_;
  MemoryHold held_;
  absl::Status refusal_;
  PlanMemory patterns_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PLANNING_ROOM_H_
