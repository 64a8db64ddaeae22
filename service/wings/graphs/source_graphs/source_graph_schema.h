// The node sets and edge sets of a source graph: one large graph from which many small ones are
// drawn or cut.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_SCHEMA_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_SCHEMA_H_

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

namespace packhouse {

// A feature of every node or edge of a set.
struct SourceColumnSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  // Extents of one row; empty for a scalar.
  std::vector<uint32_t> row_shape;
  // Whether rows have different lengths: row i is [length of i, row_shape...].
  bool ragged = false;
  // Whether a row is a string of bytes. dtype is then kUint8, row_shape is empty, ragged is true.
  bool text = false;
};

// Bytes of one row; of one step of the first axis if the column is ragged.
uint64_t SourceStepBytes(const SourceColumnSpec& column);

struct SourceNodeSetSpec {
  std::string name;
  std::vector<SourceColumnSpec> columns;
};

struct SourceEdgeSetSpec {
  std::string name;
  // Numbers of node sets.
  size_t source = 0;
  size_t target = 0;
  std::vector<SourceColumnSpec> columns;
  // The edge set whose edges these are, with source and target exchanged. It has no edges of its
  // own, and its columns are those of the other.
  std::optional<size_t> reverse_of;
};

// Immutable; thread-safe.
class SourceGraphSchema {
 public:
  static constexpr size_t kMaxSets = 256;     // Of nodes and edges together.
  static constexpr size_t kMaxColumns = 256;  // Of one set.
  static constexpr size_t kMaxNameLength = 128;
  static constexpr size_t kMaxRowBytes = size_t{16} << 20;
  static constexpr size_t kMaxRank = 8;  // Of a row.

  // INVALID_ARGUMENT naming the set, the column, the field and the value.
  static absl::StatusOr<SourceGraphSchema> Create(std::vector<SourceNodeSetSpec> node_sets,
                                                  std::vector<SourceEdgeSetSpec> edge_sets);

  absl::Span<const SourceNodeSetSpec> node_sets() const { return node_sets_; }
  absl::Span<const SourceEdgeSetSpec> edge_sets() const { return edge_sets_; }
  // O(sets).
  std::optional<size_t> NodeSetIndex(absl::string_view name) const;
  std::optional<size_t> EdgeSetIndex(absl::string_view name) const;

 private:
  SourceGraphSchema(std::vector<SourceNodeSetSpec> node_sets,
                    std::vector<SourceEdgeSetSpec> edge_sets)
      : node_sets_(std::move(node_sets)), edge_sets_(std::move(edge_sets)) {}

  std::vector<SourceNodeSetSpec> node_sets_;
  std::vector<SourceEdgeSetSpec> edge_sets_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_SCHEMA_H_
