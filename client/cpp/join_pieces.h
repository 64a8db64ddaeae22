// Graphs that were cut to fit a batch (OVERSIZE_POLICY_PARTITION), whole again.
#ifndef PACKHOUSE_CLIENT_CPP_JOIN_PIECES_H_
#define PACKHOUSE_CLIENT_CPP_JOIN_PIECES_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "packhouse/v1/graphs.pb.h"

namespace packhouse::client {

// `schema` without the tensors of pieces: what was sent. INVALID_ARGUMENT naming the tensor that is
// missing, if it has none.
absl::StatusOr<v1::GraphSchema> WholeSchema(const v1::GraphSchema& schema);

// The whole graphs of pieces, in the order in which a graph's first piece comes. `schema` is the
// stream's or the epoch's, with the tensors of pieces; `chunks` are its batches, taken apart
// (unbatch.h). Pieces of a graph may be in any of them. Graphs that were not cut pass through. The
// result has the schema WholeSchema() gives, and each graph the bytes that it had when it was sent.
//
// Nothing in the chunks is trusted. INVALID_ARGUMENT naming the graph and what is wrong: a piece
// that is missing or there twice, pieces that do not fit together, an index outside its graph; or
// naming the tensor of a chunk that disagrees with the schema. O(bytes) time and memory;
// thread-safe.
absl::StatusOr<v1::GraphChunk> JoinPieces(const v1::GraphSchema& schema,
                                          absl::Span<const v1::GraphChunk> chunks);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOIN_PIECES_H_
