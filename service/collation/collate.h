// From the graphs of a pack to padded tensors.
#ifndef PACKHOUSE_SERVICE_COLLATION_COLLATE_H_
#define PACKHOUSE_SERVICE_COLLATION_COLLATE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/collation/batch.h"
#include "service/collation/batch_layout.h"
#include "service/collation/tensor_framing.h"
#include "service/graphs/graph_chunk.h"

namespace packhouse {

// One graph where it lies.
struct GraphRef {
  const GraphChunk* chunk;
  size_t index;
};

// Joins graphs in the given order: rows are concatenated along their axis (Layout), index tensors
// shifted by the rows that come before, everything filled up to the layout's shape. Padding rows
// hold the tensor's padding value; padding indices number the first padding row of their target, or
// its last row if it is full (which never happens with Padding::kGraph).
//
// The chunks must have the layout's schema. RESOURCE_EXHAUSTED if an unlimited component grows
// beyond what an index or derived tensor can number, or if the tensors would take more than
// `max_bytes`; names the value and the bound. INTERNAL if the graphs exceed the layout's capacities
// (the packer's bug). O(bytes of the batch). Thread-safe.
//
// All tensors are in one buffer, and each byte of them is written once. Without `framing` they are
// aligned to 64 bytes; with it they lie behind their frames, whatever their alignment, and
// Batch::framed is all of that.
absl::StatusOr<Batch> Collate(const BatchLayout& layout, absl::Span<const GraphRef> graphs,
                              uint64_t max_bytes, const TensorFraming* framing = nullptr);

// The same without tensors: ids, sizes and row counts.
absl::StatusOr<Batch> CollateSizes(const BatchLayout& layout, absl::Span<const GraphRef> graphs);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_COLLATION_COLLATE_H_
