// Parts by METIS: what METIS does not check is checked here, before and after.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_METIS_ASSIGNMENT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_METIS_ASSIGNMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/partition/cutting/assignment_engine.h"
#include "service/wings/partition/cutting/balance.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// An upper estimate of the memory of one call, with its arrays: METIS takes 40 to 66 bytes for each
// entry of the adjacency, depending on how well the graph coarsens.
uint64_t MetisBytes(const HomogeneousGraph& graph, size_t num_constraints);

// OUT_OF_RANGE if METIS cannot count the graph's nodes or edges; RESOURCE_EXHAUSTED if MetisBytes()
// is beyond a bound that is not 0. O(1).
absl::Status CheckMetisTakes(const HomogeneousGraph& graph, size_t num_constraints,
                             uint64_t memory_bytes);

struct MetisParts {
  std::vector<uint32_t> part;
  // As BalanceTerms::Report takes them.
  std::vector<std::string> dropped;
  std::vector<std::string> notes;
};

// Requires 2 <= num_parts < nodes, and a graph that CheckMetisTakes accepts. A result that is out
// of balance or has empty parts is repaired; failing that, METIS is called with another seed and
// recursively; failing that, the constraint that is missed most is given up. Errors: those of the
// engine if all first calls fail.
absl::StatusOr<MetisParts> AssignByMetis(const HomogeneousGraph& graph, const BalanceTerms& terms,
                                         const PartitionOptions& options, uint32_t num_parts,
                                         AssignmentEngine& engine, const PartitionWatch& watch);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_METIS_ASSIGNMENT_H_
