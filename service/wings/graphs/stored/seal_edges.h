// Sealing an edge set: its edges in order, by source and by target, and its columns.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_EDGES_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_EDGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/graphs/stored/seal_task.h"

namespace packhouse {

// Writes the arrays of an edge set that is not reversed; returns the number of its edges.
// `num_nodes` are those of all node sets, whose ids are written. Errors as
// SourceGraphStore::Seal().
absl::StatusOr<uint64_t> SealEdges(SealTask& task, size_t edge_set,
                                   const std::vector<uint64_t>& num_nodes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_STORED_SEAL_EDGES_H_
