// A rank's share of the undirected graph that an engine cuts, and what such an engine is.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SYMMETRIC_SHARE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SYMMETRIC_SHARE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "service/wings/partition_mpi/shares/graph_share.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// The rows of this rank's nodes, without self loops and duplicates: edges that join the same two
// nodes, in either direction and of any type, are one of a weight that counts them. Signed, as
// engines take them.
struct SymmetricShare {
  std::vector<int64_t> offsets;     // Own nodes + 1.
  std::vector<int64_t> neighbours;  // Homogeneous ids, ascending in each row.
  std::vector<int64_t> weights;     // Empty on all ranks if all are 1.
  uint64_t total_entries = 0;       // Of all ranks.

  uint64_t num_own() const { return offsets.size() - 1; }
  uint64_t weight(uint64_t entry) const {
    return weights.empty() ? 1 : static_cast<uint64_t>(weights[entry]);
  }
};

// 8 bytes for each node and each entry, another 8 for an entry if some weight is not 1. The
// in-edges go over twice, so that no more is needed meanwhile.
SymmetricShare Symmetrize(Ranks& ranks, const GraphShare& graph);

// What cuts a graph that lies on several ranks.
class ShareEngine {
 public:
  virtual ~ShareEngine() = default;

  // A part below `num_parts` for each own node; the sums of `node_weights`, at least 1 each, are
  // about even. The same graph, weights, seed and number of ranks give the same parts. Requires
  // 2 <= num_parts < nodes and at least one entry. Errors are the same on all ranks.
  virtual absl::StatusOr<std::vector<uint32_t>> Assign(SymmetricShare& graph,
                                                       std::vector<int64_t>& node_weights,
                                                       uint32_t num_parts, double imbalance,
                                                       uint64_t seed) = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SYMMETRIC_SHARE_H_
