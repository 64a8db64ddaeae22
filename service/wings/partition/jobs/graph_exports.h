// Graphs to the files of other partitioners, and to a folder in DGL's chunked layout
// (wings/partition/files/chunked_layout.h).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_EXPORTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_EXPORTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/files/byte_sink.h"

namespace packhouse {

// The graph as METIS takes it: both directions of each edge, no self loops; edges that join the
// same pair are one, whose weight is their number. O(edges log) time, memory for one row.
absl::Status WriteMetisGraphOf(const HomogeneousGraph& graph, ByteSink& sink);

// What the pipeline around ParMETIS takes: NAME_nodes.txt (a weight for each node type),
// NAME_edges.txt, NAME_removed_edges.txt, NAME_stats.txt and NAME.json, the schema. The folder must
// not have them. Takes 33 bytes an edge.
absl::Status WriteParmetisFolder(const HomogeneousGraph& graph, const std::string& folder,
                                 const std::string& name);

struct ChunkedFolderOptions {
  std::string graph_name = "graph";
  // Files that each table is cut into, 1 to 65536.
  uint64_t num_chunks = 1;
};

// Writes metadata.json, edges as int64 pairs in the order of their numbers, and columns, all as
// .npy, in chunks of about the same number of rows. The folder must not be there; it appears once
// it is whole, and `folder`.partial is replaced until then. Gives a note for each column that it
// leaves out (LeftOutColumns()).
//
// INVALID_ARGUMENT naming the number of chunks; ALREADY_EXISTS; errors of the disk. Memory: 8 bytes
// for each edge of the largest edge type.
absl::StatusOr<std::vector<std::string>> WriteChunkedFolder(const HomogeneousGraph& graph,
                                                            const ChunkedFolderOptions& options,
                                                            const std::string& folder);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_EXPORTS_H_
