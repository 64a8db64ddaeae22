// Takes a batch apart into its graphs: the inverse of Collate.
#ifndef PACKHOUSE_SERVICE_COLLATION_UNCOLLATE_H_
#define PACKHOUSE_SERVICE_COLLATION_UNCOLLATE_H_

#include "absl/status/statusor.h"
#include "service/collation/batch.h"
#include "service/graphs/graph_chunk.h"
#include "service/graphs/graph_schema.h"

namespace packhouse {

// The real graphs of a batch in batch order, without padding, index tensors local again. The chunk
// owns its rows. `schema` must outlive the chunk; the batch's first tensors must be the schema's.
//
// INVALID_ARGUMENT if sizes and data disagree, or an index is out of its graph's range; shapes and
// row counts are not checked, since they follow from these. O(bytes of the batch). Thread-safe.
absl::StatusOr<GraphChunk> Uncollate(const GraphSchema* schema, const Batch& batch);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_COLLATION_UNCOLLATE_H_
