// Whether everything that is stored of a graph is as it was written.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_VERIFICATION_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_VERIFICATION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/graphs/stored/disk_space.h"
#include "service/wings/graphs/stored/graph_files.h"
#include "service/wings/graphs/stored/seal_work.h"

namespace packhouse {

// Of an open graph: every record of its log. Progress is in bytes.
absl::StatusOr<SourceGraphVerifyReport> VerifyRows(const std::string& path,
                                                   const GraphDefinition& definition,
                                                   SealWork::Progress progress);

// Of a sealed graph: every block of every array; and the structure, if all blocks are sound.
absl::StatusOr<SourceGraphVerifyReport> VerifyArrays(const std::string& folder,
                                                     const GraphManifest& manifest,
                                                     SourceGraphInfo info,
                                                     std::shared_ptr<const GraphSpace> space,
                                                     SealWork::Progress progress);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_GRAPH_VERIFICATION_H_
