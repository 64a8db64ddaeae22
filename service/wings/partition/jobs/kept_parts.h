// The parts of nodes of a partition that is done.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_KEPT_PARTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_KEPT_PARTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"

namespace packhouse {

// The part of each homogeneous node, from the files that RunPartition() has written into `folder`:
// parts.npy, or the parts themselves. DATA_LOSS naming the file, if they do not have each node
// once; errors of the disk. O(nodes); 4 bytes a node.
absl::StatusOr<std::vector<uint32_t>> ReadKeptParts(const std::string& folder, uint32_t num_parts,
                                                    const HomogeneousGraph& graph);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_KEPT_PARTS_H_
