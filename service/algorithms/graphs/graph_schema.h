// The tensors of a graph.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_GRAPH_SCHEMA_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_GRAPH_SCHEMA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/algorithms/sizes/size_schema.h"

namespace packhouse {

// The layout of a tensor in chunks, records and batches: which axis of its shape numbers the rows.
enum class Layout : uint8_t {
  kRowsFirst,  // [rows, row_shape...]: the elements of a row lie next to each other.
  kRowsLast,   // [row_shape..., rows]: element j of all rows, then element j + 1 of all rows.
};

// One tensor of every graph: it has as many rows as the graph's count in `component`.
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
  Layout layout = Layout::kRowsFirst;
};

// Components and tensors of a kind of graph. Immutable; thread-safe.
class GraphSchema {
 public:
  static constexpr size_t kMaxTensors = 256;
  static constexpr size_t kMaxTensorNameLength = 128;
  static constexpr size_t kMaxRowBytes = size_t{16} << 20;
  static constexpr size_t kMaxRank = 8;  // Of a row.
  // The most elements of a row of a tensor with Layout::kRowsLast.
  static constexpr size_t kMaxPlanes = 16;

  // INVALID_ARGUMENT naming the tensor, the field and the value.
  static absl::StatusOr<GraphSchema> Create(SizeSchema sizes, std::vector<TensorSpec> tensors);

  const SizeSchema& sizes() const { return sizes_; }
  size_t num_components() const { return sizes_.num_components(); }
  absl::Span<const TensorSpec> tensors() const { return tensors_; }
  // Bytes of one row of tensor t.
  size_t row_bytes(size_t t) const { return row_bytes_[t]; }
  // A tensor consists of planes, one after the other, each with its part of every row. There is one
  // plane or, with Layout::kRowsLast, one for each element of a row.
  size_t num_planes(size_t t) const {
    return tensors_[t].layout == Layout::kRowsLast ? tensors_[t].row_shape[0] : 1;
  }
  // Bytes of one row of tensor t in one plane.
  size_t plane_row_bytes(size_t t) const {
    return tensors_[t].layout == Layout::kRowsLast ? ElementBytes(tensors_[t].dtype)
                                                   : row_bytes_[t];
  }
  // Number of a tensor. O(tensors).
  std::optional<size_t> TensorIndex(absl::string_view name) const;
  // Whether some index tensor points into component k.
  bool IsPointedInto(size_t k) const;
  // Whether component k belongs to a ragged feature: it has one tensor, of its own name, which is
  // no index tensor, and nothing points into it. O(tensors).
  bool IsRaggedFeature(size_t k) const;

 private:
  GraphSchema(SizeSchema sizes, std::vector<TensorSpec> tensors, std::vector<size_t> row_bytes)
      : sizes_(std::move(sizes)), tensors_(std::move(tensors)), row_bytes_(std::move(row_bytes)) {}

  SizeSchema sizes_;
  std::vector<TensorSpec> tensors_;
  std::vector<size_t> row_bytes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_GRAPH_SCHEMA_H_
