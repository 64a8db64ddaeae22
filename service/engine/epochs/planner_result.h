// The result of planners for an epoch: the part of a plan that differs from planner to planner.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PLANNER_RESULT_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PLANNER_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/planning/plan.h"
#include "service/algorithms/planning/plan_memory.h"

namespace packhouse {

// Receipts of epochs in segments begin with it, and no others do.
inline constexpr absl::string_view kSegmentsReceipt = "segments-";

// What was found when each segment of an epoch (segmented_plan.h) was planned. A segment's patterns
// are found again when they are needed.
struct SegmentCounts {
  // By rank group, then segment.
  std::vector<uint32_t> num_batches;
  // By segment: what shows that a planner finds the same again.
  std::vector<uint64_t> digests;
  // Graphs in all batches, and those that no batch can hold.
  uint64_t num_graphs = 0;
  uint64_t num_oversize = 0;
  // Graphs that are cut, and their pieces, which num_graphs counts.
  uint64_t num_cut_graphs = 0;
  uint64_t num_pieces = 0;
  // By rank group and shape: batches; with each component, `graphs` last: real rows of all batches,
  // and of the fullest.
  std::vector<uint64_t> of_shapes;
  std::vector<uint64_t> rows;
  std::vector<uint64_t> fullest;

  uint64_t Bytes() const {
    return sizeof(uint32_t) * num_batches.capacity() +
           sizeof(uint64_t) *
               (digests.capacity() + of_shapes.capacity() + rows.capacity() + fullest.capacity());
  }

  friend bool operator==(const SegmentCounts&, const SegmentCounts&) = default;
};

// An epoch's batches depend only on this, the data set and the request. So the same batches can be
// made again from it, without any planner (EpochPlan::Make()).
struct PlannerResult {
  // Identifies the plan.
  std::string receipt;
  // The version of the planned data set.
  uint64_t dataset_version = 0;
  // No plan has fewer batches; 0 if that is not known.
  uint64_t lower_bound = 0;
  // Capacities by rank group and shape, as EpochShapes, `graphs` last in each.
  std::vector<std::vector<std::vector<uint64_t>>> shapes;
  // The distinct sizes of the packed items, row-major, ascending (SizeClasses::tuples()); patterns
  // refer to them by number. A group of graphs has one component more than a graph. Both are empty
  // if graphs are packed in order.
  size_t num_components = 0;
  std::vector<uint32_t> tuples;
  // By rank group.
  std::vector<std::vector<Pattern>> patterns;
  // Only of an epoch in segments; then there are neither tuples nor patterns.
  SegmentCounts segments;

  // At most its bytes in memory.
  uint64_t Bytes() const {
    uint64_t bytes = sizeof(PlannerResult) + receipt.size() + sizeof(uint32_t) * tuples.capacity() +
                     segments.Bytes();
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
  // Of another epoch in the same segments: it is used only if this release's planner finds the
  // same.
  bool is_of_other_epoch = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PLANNER_RESULT_H_
