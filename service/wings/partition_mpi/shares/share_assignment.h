// A part for each own node: an engine's, mended by moves of our own.
//
// Engines for several ranks take one weight a node. What was to be balanced besides is asked of our
// own moves afterwards, and the result says what was met.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARE_ASSIGNMENT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARE_ASSIGNMENT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/partition/cutting/assignment.h"
#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition_mpi/shares/graph_share.h"
#include "service/wings/partition_mpi/shares/node_needs.h"
#include "service/wings/partition_mpi/shares/symmetric_share.h"

namespace packhouse {

struct ShareAssignment {
  // Of own nodes: a trainer each, and a trainer's part is trainer / trainers_per_machine.
  std::vector<uint32_t> finest;
  // Its figures are of all ranks; `part` and `trainer` are empty.
  Assignment description;
};

// As AssignParts(): one part, no edges and at least as many parts as nodes need no engine.
// Constraints that no partition can meet are dropped, with the reason. Of `options`, `classes` is
// not read.
//
// Errors: those of the engine, the same on all ranks.
absl::StatusOr<ShareAssignment> AssignShare(Ranks& ranks, const GraphShare& graph,
                                            absl::Span<const OwnClasses> classes,
                                            const PartitionOptions& options, ShareEngine& engine);

// Describes parts that came from elsewhere: `finest` has one below num_parts * trainers for each
// own node.
ShareAssignment DescribeShare(Ranks& ranks, const GraphShare& graph,
                              absl::Span<const OwnClasses> classes, const PartitionOptions& options,
                              std::vector<uint32_t> finest);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARE_ASSIGNMENT_H_
