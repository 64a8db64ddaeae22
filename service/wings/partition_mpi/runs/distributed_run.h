// Makes a partition on several ranks: from chunked files to a folder that is whole.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_DISTRIBUTED_RUN_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_DISTRIBUTED_RUN_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition_mpi/shares/ranks.h"
#include "service/wings/partition_mpi/shares/symmetric_share.h"

namespace packhouse {

struct DistributedRequest {
  std::string graph;  // A folder with metadata.json, which all ranks see.
  PartitionPlan plan;
  // Not empty: parts are not made, but taken from TYPE.txt and partition_meta.json there, and the
  // plan's num_parts is not read.
  std::string assignment;
  std::string output;  // A folder that all ranks see, once it is there.
};

// Called on rank 0 with what begins now. May be empty.
using PhaseWatch = std::function<void(const std::string& phase)>;

// All ranks call it together with the same request. Writes what RunPartition() writes, with the
// same bytes for the same parts, except in report.json, whose method is `pt-scotch`. Of the plan,
// method, scheme, objective and quality are not read: the engine has one way.
//
// The folder appears at once when everything is on the disk. Until then there is
// PartialFolder(output), which nobody takes for a partition. If that is there from the same files
// (by name, size and time of change), plan and number of ranks, the work goes on from its
// assignment and the parts that are whole; with `assignment`, from neither. The same files, plan
// and number of ranks give the same bytes, whether or not the work was interrupted.
//
// No rank has more than its share of the graph: its block of nodes with their in-edges, one part at
// a time, and tables of the types and parts. The report is whole on rank 0.
//
// Errors, the same on all ranks: those of RunPartition(), named by rank where there are several.
absl::StatusOr<PartitionReport> RunDistributedPartition(Ranks& ranks,
                                                        const DistributedRequest& request,
                                                        ShareEngine& engine,
                                                        const PhaseWatch& watch);

// As ReportText(), with the method's true name.
std::string DistributedReportText(const PartitionReport& report, bool given);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_DISTRIBUTED_RUN_H_
