// Some parts of a data set as one graph, with the edges between them that the partition has cut.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_JOINER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_JOINER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/partition/epochs/part_links.h"
#include "service/wings/partition/epochs/parts_schema.h"

namespace packhouse {

// A chunk of the joined schema with the parts as its graphs, in the given order, and their ids. An
// edge is of the graph in which it ends, those within the part first. The index of a source in
// another part numbers that part's rows from this one's first row: it may be negative, or beyond
// the graph's rows. Once the graphs are collated in this order, all indices are right.
//
// `schema` must outlive the chunk. DATA_LOSS naming the part, for an index that is wrong.
// O(bytes of the parts, and log of their nodes for each
// restored edge); allocates about the bytes of the parts.
absl::StatusOr<GraphChunk> JoinParts(const PartsSchema& schema, const PartLinks& links,
                                     const DatasetReader& reader, absl::Span<const uint32_t> parts);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_PART_JOINER_H_
