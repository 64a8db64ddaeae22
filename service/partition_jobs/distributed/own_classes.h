// Classes of a rank's own nodes, from columns of chunked files.
#ifndef PACKHOUSE_SERVICE_PARTITION_JOBS_DISTRIBUTED_OWN_CLASSES_H_
#define PACKHOUSE_SERVICE_PARTITION_JOBS_DISTRIBUTED_OWN_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "service/partition_jobs/distributed/chunked_input.h"
#include "service/partition_jobs/partition_plan.h"
#include "service/partitioning/distributed/node_needs.h"
#include "service/partitioning/distributed/ranks.h"

namespace packhouse {

// What OptionsFor() gives of the plan's classes, of the nodes [begin, end). All ranks call it
// together. Errors, the same on all ranks: as OptionsFor().
absl::StatusOr<std::vector<OwnClasses>> ReadOwnClasses(Ranks& ranks, const ChunkedInput& input,
                                                       const PartitionPlan& plan, uint64_t begin,
                                                       uint64_t end);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PARTITION_JOBS_DISTRIBUTED_OWN_CLASSES_H_
