// Makes the arrays of a sealed graph from its log: all node sets, then all edge sets.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_SEALER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_SEALER_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/seal_work.h"

namespace packhouse {

// Writes the arrays into the folder `arrays` of the graph's `folder`, which is emptied before. They
// are durable; only the manifest, which is returned without producers and with a new version, makes
// them a sealed graph. After an error the folder is gone, and `space` has its bytes back. Errors as
// SourceGraphStore::Seal().
absl::StatusOr<GraphManifest> SealGraph(const GraphDefinition& definition,
                                        const std::string& folder, GraphSpace* space,
                                        const SealOptions& options, SealWork::Progress progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_SEALER_H_
