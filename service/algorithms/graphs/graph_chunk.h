// Many checked graphs, in columns.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_GRAPH_CHUNK_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_GRAPH_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/sizes/size_table.h"

namespace packhouse {

// A view of the rows of a chunk's graphs: nothing is copied. Immutable; thread-safe.
class GraphChunk {
 public:
  // `columns[t]` holds the rows of tensor t of all graphs, concatenated along the axis of rows
  // (with Layout::kRowsLast: all rows of plane 0, then of plane 1); it points into memory that
  // `owner` keeps alive (usually the received message), or that outlives the chunk. `schema` must
  // outlive the chunk.
  //
  // INVALID_ARGUMENT, naming the graph, the tensor and the value, if a column's length disagrees
  // with the sizes or an index is out of its graph's range. O(bytes of index tensors + n * l).
  static absl::StatusOr<GraphChunk> Create(const GraphSchema* schema, SizeTable sizes,
                                           std::vector<absl::string_view> columns,
                                           std::shared_ptr<const void> owner);

  // The same for columns that once passed Create() and have been guarded by a checksum since.
  // Lengths are checked; values of index tensors are not. O(n * l).
  static absl::StatusOr<GraphChunk> CreateTrusted(const GraphSchema* schema, SizeTable sizes,
                                                  std::vector<absl::string_view> columns,
                                                  std::shared_ptr<const void> owner);

  // Graphs with sizes only: there are no rows to view. `schema` must outlive the chunk; its tensors
  // do not matter.
  static GraphChunk OfSizes(const GraphSchema* schema, SizeTable sizes) {
    return GraphChunk(schema, std::move(sizes), {}, nullptr);
  }

  const GraphSchema& schema() const { return *schema_; }
  const SizeTable& sizes() const { return sizes_; }
  size_t num_graphs() const { return sizes_.num_graphs(); }

  // Count of graph i in component k, 0 <= k <= l; 1 for `graphs`.
  uint64_t count(size_t i, size_t k) const {
    return k == sizes_.num_components() ? 1 : sizes_.tuple(i)[k];
  }
  // Rows of graph i of tensor t, dense, in one of its planes (GraphSchema::num_planes). Not for
  // OfSizes().
  absl::string_view rows(size_t i, size_t t, size_t plane = 0) const {
    const size_t k = schema_->tensors()[t].component;
    const size_t row_bytes = schema_->plane_row_bytes(t);
    return columns_[t].substr(plane_begin(t, plane) + first_row(i, k) * row_bytes,
                              count(i, k) * row_bytes);
  }
  // Rows of each component in the graphs before graph i, l of them; those of graph i + 1 follow.
  // 0 <= i < n. Not for OfSizes().
  const uint64_t* first_rows(size_t i) const {
    return first_rows_.data() + i * sizes_.num_components();
  }
  // Prefetches graph i's size, id and first rows.
  void Prefetch(size_t i) const {
    sizes_.Prefetch(i);
    if (!first_rows_.empty()) __builtin_prefetch(first_rows(i));
  }
  // Where a plane begins in column(t).
  size_t plane_begin(size_t t, size_t plane) const {
    return plane == 0 ? 0 : columns_[t].size() / schema_->num_planes(t) * plane;
  }
  // Rows of all graphs of tensor t, dense, plane after plane. Not for OfSizes().
  absl::string_view column(size_t t) const { return columns_[t]; }
  // The number of the schema's tensors; 0 for OfSizes().
  size_t num_columns() const { return columns_.size(); }
  // Bytes of all columns.
  size_t num_bytes() const;

 private:
  GraphChunk(const GraphSchema* schema, SizeTable sizes, std::vector<absl::string_view> columns,
             std::shared_ptr<const void> owner)
      : schema_(schema),
        sizes_(std::move(sizes)),
        columns_(std::move(columns)),
        owner_(std::move(owner)) {}

  // Rows of component k in the graphs before graph i.
  uint64_t first_row(size_t i, size_t k) const {
    return k == sizes_.num_components() ? i : first_rows_[i * sizes_.num_components() + k];
  }

  const GraphSchema* schema_;
  SizeTable sizes_;
  std::vector<absl::string_view> columns_;
  std::shared_ptr<const void> owner_;
  std::vector<uint64_t> first_rows_;  // (n + 1) * l, row-major.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_GRAPH_CHUNK_H_
