// Joins the graphs of a pack into padded tensors.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_COLLATE_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_COLLATE_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/collation/batch_layout.h"
#include "service/algorithms/collation/tensor_framing.h"
#include "service/algorithms/graphs/graph_chunk.h"

namespace packhouse {

// A view of one graph.
struct GraphRef {
  const GraphChunk* chunk;
  size_t index;
};

// Joins graphs in the given order. Rows are concatenated along their axis (Layout), index tensors
// are shifted by the rows that come before, and everything is filled up to the layout's shape.
// Padding rows hold the tensor's padding value. Padding indices are the number of the first padding
// row of their target, or of its last row if it is full (never with Padding::kGraph); with
// Padding::kTfgnn they are spread over its padding rows (fake_indices.h).
//
// The chunks must have the layout's schema. RESOURCE_EXHAUSTED if an unlimited component grows
// beyond what an index or derived tensor can number, or if the tensors would take more than
// `max_bytes`; names the value and the bound. INTERNAL if the graphs exceed the layout's
// capacities, or need padding for which there is no graph or row (the packer's bug). O(bytes of the
// batch). Thread-safe.
//
// With IntegerWidth::kCompact, integers have narrow types (compact_type.h); graphs and layout
// decide which. Which graphs fit, and `max_bytes`, are about declared types. INTERNAL if an index
// that was not checked does not fit.
//
// All tensors are in one buffer, and each of their bytes is written once. Without `framing` they
// are aligned to 64 bytes. With it they follow their frames at any alignment, and Batch::framed has
// frames and tensors; at a BatchPlace (batch_place.h) they are aligned, too.
absl::StatusOr<Batch> Collate(const BatchLayout& layout, absl::Span<const GraphRef> graphs,
                              uint64_t max_bytes, const TensorFraming* framing = nullptr);

// The same for graphs that lie together, each in its bytes as GatheredGraph says; they have the
// layout's schema. The result is that of Collate(), byte for byte.
absl::StatusOr<Batch> CollateGathered(const BatchLayout& layout,
                                      absl::Span<const absl::string_view> graphs,
                                      uint64_t max_bytes, const TensorFraming* framing = nullptr);

// A batch that was collated with this framing, and in memory of its own, as Collate() would have
// made it at the BatchPlace of this thread; as it is if there is none, or no room there. O(bytes).
Batch AtBatchPlace(Batch batch, const TensorFraming* framing);

// The same as Collate() without tensors: ids, sizes and row counts.
absl::StatusOr<Batch> CollateSizes(const BatchLayout& layout, absl::Span<const GraphRef> graphs);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_COLLATE_H_
