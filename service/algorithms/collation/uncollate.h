// Takes a batch apart into its graphs: the inverse of Collate.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_UNCOLLATE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_UNCOLLATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

// The real graphs of a batch in batch order, without padding, index tensors local again. The chunk
// owns its rows. `schema` must outlive the chunk; the batch's first tensors must be the schema's.
//
// INVALID_ARGUMENT if sizes and data disagree, or an index is out of its graph's range, or as
// WidenedData; shapes and row counts are not checked, since they follow from these. O(bytes of the
// batch). Thread-safe.
absl::StatusOr<GraphChunk> Uncollate(const GraphSchema* schema, const Batch& batch);

// The data of a tensor in its declared type.
//
// INVALID_ARGUMENT if it travels in a type that is none for its declared one (compact_type.h), or
// if its bytes are no whole number of elements. O(bytes). Thread-safe.
absl::StatusOr<std::string> WidenedData(const BatchTensor& tensor);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_UNCOLLATE_H_
