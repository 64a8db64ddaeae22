// Classes of a rank's own nodes, from columns of chunked files.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_OWN_CLASSES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_OWN_CLASSES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "service/wings/partition_mpi/shares/node_needs.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// What OptionsFor() gives of the plan's classes, of the nodes [begin, end). All ranks call it
// together. Errors, the same on all ranks: as OptionsFor().
absl::StatusOr<std::vector<OwnClasses>> ReadOwnClasses(Ranks& ranks, const ChunkedInput& input,
                                                       const PartitionPlan& plan, uint64_t begin,
                                                       uint64_t end);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_OWN_CLASSES_H_
