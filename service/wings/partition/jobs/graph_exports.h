// Graphs to text files of other partitioners.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_EXPORTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_EXPORTS_H_

#include <string>

#include "absl/status/status.h"
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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_GRAPH_EXPORTS_H_
