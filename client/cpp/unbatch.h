// Takes a batch apart: the inverse of joining graphs and padding them.
#ifndef PACKHOUSE_CLIENT_CPP_UNBATCH_H_
#define PACKHOUSE_CLIENT_CPP_UNBATCH_H_

#include "absl/status/statusor.h"
#include "client/cpp/schema_layout.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// The graphs of `batch` in batch order, without padding, index tensors local to their graphs again,
// with the ids of the batch. The result equals a chunk in which these graphs would have been sent
// together.
//
// `schema` is the stream's, as in PackOpened.schema. A batch of a stream of sizes has no tensors,
// and needs a schema without tensors. Derived tensors, which follow the schema's, are ignored, and
// so are the values of padding rows. Tensors that travel in a narrow type (widen.h) are widened.
//
// Nothing in the batch is trusted, except that its ids are distinct. Errors: INVALID_ARGUMENT
// naming the field and the value, if `schema` is invalid (see ResolveSchema), if lengths, shapes,
// names, dtypes or sums in the batch disagree with it or with each other, or if a real index points
// outside its own graph. Cost: O(bytes of the real rows); thread-safe.
absl::StatusOr<v1::GraphChunk> Unbatch(const v1::GraphSchema& schema, const v1::Batch& batch);

// The same with a schema that was resolved once for many batches.
absl::StatusOr<v1::GraphChunk> Unbatch(const SchemaLayout& schema, const v1::Batch& batch);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_UNBATCH_H_
