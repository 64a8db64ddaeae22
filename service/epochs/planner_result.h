// The result of planners for an epoch: the part of a plan that differs from planner to planner.
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

// An epoch's batches depend only on this, the data set and the request. So the same batches can be
// made again from it, without any planner (EpochPlan::Make()).
struct PlannerResult {
  // Identifies the plan.
  std::string receipt;
  // The version of the planned data set.
  uint64_t dataset_version = 0;
  // No plan has fewer batches; 0 if that is not known.
  uint64_t lower_bound = 0;
  // Capacities by rank group and shape, the largest shape first, `graphs` last in each.
  std::vector<std::vector<std::vector<uint64_t>>> shapes;
  // The distinct sizes of the packed items, row-major, ascending (SizeClasses::tuples()); patterns
  // refer to them by number. A group of graphs has one component more than a graph. Both are empty
  // if graphs are packed in order.
  size_t num_components = 0;
  std::vector<uint32_t> tuples;
  // By rank group.
  std::vector<std::vector<Pattern>> patterns;

  // At most its bytes in memory.
  uint64_t Bytes() const {
    uint64_t bytes = sizeof(PlannerResult) + receipt.size() + sizeof(uint32_t) * tuples.capacity();
    for (const auto& shapes_of_group : shapes) {
      for (const auto& capacities : shapes_of_group) {
        bytes += sizeof(std::vector<uint64_t>) + sizeof(uint64_t) * capacities.size();
      }
    }
    for (const auto& of_group : patterns) bytes += BytesOfPatterns(of_group);
    return bytes;
  }

  friend bool operator==(const PlannerResult&, const PlannerResult&) = default;
};

// A result that is kept somewhere and can be read if needed.
struct KeptPlannerResult {
  std::string receipt;
  uint64_t dataset_version = 0;
  // The memory of the read result is reserved as long as it lives.
  std::function<absl::StatusOr<std::shared_ptr<const PlannerResult>>()> read;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_EPOCHS_PLANNER_RESULT_H_
