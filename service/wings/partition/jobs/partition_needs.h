// What a partition needs of the graph and of the memory, before it is begun.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_NEEDS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_NEEDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/jobs/partition_plan.h"

namespace packhouse {

// Adjacency entries, two for each edge, take about this much while METIS works.
inline constexpr uint64_t kBytesPerEntry = 60;

struct PartitionNeeds {
  uint64_t bytes = 0;
  // What the assignment may take of it; 0: all that it needs.
  uint64_t assignment_bytes = 0;
};

// With a bound of memory of `most_bytes` (0: none). RESOURCE_EXHAUSTED naming both, if it is more;
// INVALID_ARGUMENT and FAILED_PRECONDITION as HomogeneousGraph::Create.
absl::StatusOr<PartitionNeeds> NeedsOf(const SourceGraph& graph, const PartitionPlan& plan,
                                       uint64_t most_bytes);

// That the graph has the sets, the columns and the directions of edges that the plan needs.
// INVALID_ARGUMENT naming the field, FAILED_PRECONDITION naming the edge set.
absl::Status CheckPlanOf(const SourceGraph& graph, const PartitionPlan& plan);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_NEEDS_H_
