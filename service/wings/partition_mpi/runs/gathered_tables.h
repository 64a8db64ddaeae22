// The arrays of a gathered part, as its files have them: those of PartArrays.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_GATHERED_TABLES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_GATHERED_TABLES_H_

#include <cstddef>

#include "absl/types/span.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/jobs/part_arrays.h"
#include "service/wings/partition_mpi/shares/graph_share.h"
#include "service/wings/partition_mpi/shares/part_gatherer.h"
#include "service/wings/partition_mpi/shares/shared_ids.h"

namespace packhouse {

inline absl::Span<const SharedNodeType> NodeTypesOf(const SharedTypes& types) {
  return types.node_types;
}
inline absl::Span<const SharedEdgeType> EdgeTypesOf(const SharedTypes& types) {
  return types.edge_types;
}

// The arguments must outlive it and the sources that it gives.
class GatheredTables : public PartArrays<GatheredPart, SharedIds, SharedTypes> {
 public:
  GatheredTables(const SharedIds* ids, const GatheredPart* part, const GraphForms& forms)
      : PartArrays(ids, &ids->graph().types(), part, forms) {}

  // TYPE/trainer_id of inner nodes and edges of a type. Requires that the part has trainers.
  ArraySource NodeTrainers(size_t type) const;
  ArraySource EdgeTrainers(size_t type) const;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_GATHERED_TABLES_H_
