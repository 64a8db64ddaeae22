// A pack's graphs joined and padded.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"

namespace packhouse {

// Dense, row-major, little-endian. The number of rows, padding included, comes first in the shape,
// or last with Layout::kRowsLast.
struct BatchTensor {
  std::string name;
  // Of `data`.
  DType dtype = DType::kFloat32;
  std::vector<uint64_t> shape;
  // Lives as long as Batch::buffer.
  absl::string_view data;
  // The type in the schema, or of a derived tensor; none if it is `dtype`.
  std::optional<DType> declared_dtype = std::nullopt;
};

// With the schema, a batch can be taken apart again (see uncollate.h).
struct Batch {
  // Ids of the real graphs, in batch order.
  std::vector<uint64_t> graph_ids;
  // Their size tuples, row-major.
  std::vector<uint32_t> sizes;
  // For each component, `graphs` last: real rows, and rows with padding.
  std::vector<uint64_t> real_rows;
  std::vector<uint64_t> rows;
  // The schema's tensors in order, then the derived ones. Empty if only sizes were packed.
  std::vector<BatchTensor> tensors;
  // All tensors as they are sent, each after its frame (see tensor_framing.h); empty if they were
  // collated without framing. Lives as long as `buffer`.
  absl::string_view framed;
  // Holds the data of all tensors: written once, and sent from there.
  std::shared_ptr<const void> buffer;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_COLLATION_BATCH_H_
