// What tensors a graph has.
#ifndef PACKHOUSE_SERVICE_GRAPHS_GRAPH_SCHEMA_H_
#define PACKHOUSE_SERVICE_GRAPHS_GRAPH_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/graphs/dtype.h"
#include "service/sizes/size_schema.h"

namespace packhouse {

// One tensor of every graph: so many rows as the graph's count in `component`.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  // Extents of one row; empty for a scalar per row.
  std::vector<uint32_t> row_shape;
  // Component number; num_components() is `graphs`.
  size_t component = 0;
  // For an index tensor: the component whose rows its values number, local to the graph.
  std::optional<size_t> index_into;
  // One element that fills padding rows; empty: zero.
  std::string padding_value;
};

// Components and tensors of a kind of graph. Immutable; thread-safe.
class GraphSchema {
 public:
  static constexpr size_t kMaxTensors = 256;
  static constexpr size_t kMaxTensorNameLength = 128;
  static constexpr size_t kMaxRowBytes = size_t{16} << 20;
  static constexpr size_t kMaxRank = 8;  // Of a row.

  // INVALID_ARGUMENT naming the tensor, the field and the value.
  static absl::StatusOr<GraphSchema> Create(SizeSchema sizes, std::vector<TensorSpec> tensors);

  const SizeSchema& sizes() const { return sizes_; }
  size_t num_components() const { return sizes_.num_components(); }
  absl::Span<const TensorSpec> tensors() const { return tensors_; }
  // Bytes of one row of tensor t.
  size_t row_bytes(size_t t) const { return row_bytes_[t]; }
  // Number of a tensor. O(tensors).
  std::optional<size_t> TensorIndex(absl::string_view name) const;
  // Whether some index tensor points into component k.
  bool IsPointedInto(size_t k) const;

 private:
  GraphSchema(SizeSchema sizes, std::vector<TensorSpec> tensors, std::vector<size_t> row_bytes)
      : sizes_(std::move(sizes)), tensors_(std::move(tensors)), row_bytes_(std::move(row_bytes)) {}

  SizeSchema sizes_;
  std::vector<TensorSpec> tensors_;
  std::vector<size_t> row_bytes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_GRAPHS_GRAPH_SCHEMA_H_
