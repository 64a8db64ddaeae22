// Graphs from files, in memory: the chunked layout, and METIS's graph files.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_FOLDERS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_FOLDERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"

namespace packhouse {

// Errors of the readers: NOT_FOUND naming a file that is not there; INVALID_ARGUMENT naming file,
// line and value. The graph's version is a digest of its edges and columns: the same files, the
// same version.

// The graph of FOLDER/metadata.json. Edges are read from csv and numpy, features from numpy;
// ParquetIsNotRead(). Edge sets are called source:relation:target. All of it is in memory.
absl::StatusOr<std::unique_ptr<const SourceGraph>> ReadChunkedFolder(const std::string& folder);

// Columns of weights of a METIS graph.
inline constexpr char kMetisWeight[] = "weight";
inline constexpr char kMetisSize[] = "size";

// A METIS graph: node set "_N", edge set "_E" with both directions of each edge. Weights are
// columns of int64: kMetisWeight (of vertices [ncon], of edges a number) and kMetisSize.
absl::StatusOr<std::unique_ptr<const SourceGraph>> ReadMetisFile(const std::string& path);

// The parts of nodes that FOLDER/TYPE.txt and FOLDER/partition_meta.json say, by homogeneous id.
struct FolderAssignment {
  uint32_t num_parts = 0;
  std::vector<uint32_t> part;
};
absl::StatusOr<FolderAssignment> ReadAssignmentFolder(const std::string& folder,
                                                      const HomogeneousGraph& graph);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_FOLDERS_H_
