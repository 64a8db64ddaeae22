// A graph as a folder in DGL's chunked layout (wings/partition/files/chunked_layout.h).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_CHUNKED_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_CHUNKED_FOLDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"

namespace packhouse {

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

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_CHUNKED_FOLDER_H_
