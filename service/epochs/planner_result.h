// What planners found for an epoch: the part of a plan that another planner may find otherwise.
#ifndef PACKHOUSE_SERVICE_EPOCHS_PLANNER_RESULT_H_
#define PACKHOUSE_SERVICE_EPOCHS_PLANNER_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/planning/plan.h"
#include "service/planning/plan_memory.h"

namespace packhouse {

// With the data set and the request, all that an epoch's batches depend on: who has it makes the
// same batches again without any planner (EpochPlan::Make()).
struct PlannerResult {
  // By which the plan can be told from others.
  std::string receipt;
  // Of the data set that was planned for.
  uint64_t dataset_version = 0;
  // No plan has fewer batches; 0 if that is not known.
  uint64_t lower_bound = 0;
  // Capacities by rank group and shape, the largest shape first, `graphs` last in each.
  std::vector<std::vector<std::vector<uint64_t>>> shapes;
  // The distinct sizes of what is packed, row-major, ascending (SizeClasses::tuples()), which the
  // patterns number. A group of graphs has one component more than a graph. Both are empty if
  // graphs are packed in order.
  size_t num_components = 0;
  std::vector<uint32_t> tuples;
  // By rank group.
  std::vector<std::vector<Pattern>> patterns;

  // What it takes in memory, at most.
  uint64_t Bytes() const {
    uint64_t bytes = sizeof(PlannerResult) + receipt.size() + sizeof(uint32_t) * tuples.capacity();
    for (const auto& shapes_of_group : shapes) {
      for (const auto& capacities : shapes_of_group) {
        bytes += sizeof(capacities) + sizeof(uint64_t) * capacities.size();
      }
    }
    for (const auto& of_group : patterns) bytes += BytesOfPatterns(of_group);
    return bytes;
  }

  friend bool operator==(const PlannerResult&, const PlannerResult&) = default;
};

// One that is kept somewhere, for who may have to read it.
struct KeptPlannerResult {
  std::string receipt;
  uint64_t dataset_version = 0;
  // Its memory is reserved as long as it is there.
  std::function<absl::StatusOr<std::shared_ptr<const PlannerResult>>()> read;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_PLANNER_RESULT_H_
