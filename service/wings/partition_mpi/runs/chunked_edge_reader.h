// The edges of chunked files, each read by one of several ranks.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_CHUNKED_EDGE_READER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_CHUNKED_EDGE_READER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "service/wings/partition_mpi/shares/graph_share.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// Reads this rank's edges: of numpy files a run of rows of each type, of csv files a run of lines
// of each file. All ranks create it together. Errors of both, naming file and row: an end that is
// no node, a number of rows that is not the metadata's; DATA_LOSS for a file that has become
// shorter.
absl::StatusOr<std::unique_ptr<EdgeReader>> MakeChunkedEdgeReader(Ranks& ranks,
                                                                  const ChunkedInput& input);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_CHUNKED_EDGE_READER_H_
