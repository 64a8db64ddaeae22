// One large graph, sealed: what samplers and partitioners read.
//
// Start here: SourceGraph is the interface; MemorySourceGraph has its arrays in memory.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/graphs/source_graphs/checked_array.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"

namespace packhouse {

// The edges of one edge set, by one of their ends. Row r is node r of the set at that end.
struct Adjacency {
  // Rows + 1 ascending numbers; those of row r are [offsets[r], offsets[r + 1]).
  absl::Span<const uint64_t> offsets;
  // The node at the other end.
  absl::Span<const uint32_t> neighbours;
  // The number of the edge in its set, ascending within a row. Empty if edge i is at place i (edges
  // were stored in the order of these rows).
  absl::Span<const uint64_t> edges;

  uint64_t num_rows() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  uint64_t degree(uint32_t row) const { return offsets[row + 1] - offsets[row]; }
  uint64_t edge(uint64_t place) const { return edges.empty() ? place : edges[place]; }
};

// The rows of one column: little-endian and dense.
//
// Rows must be checked before they are read, as often as they are: a stored column may be damaged.
// That is quick, once the block of memory that has them was checked.
struct SourceColumn {
  const char* data = nullptr;
  uint64_t row_bytes = 0;  // Not ragged: of each row. Ragged: of one step of the first axis.
  // Ragged: rows + 1 ascending numbers of steps. Otherwise empty.
  absl::Span<const uint64_t> offsets;
  // Of `data` and `offsets`.
  CheckedArray checked_data = {};
  CheckedArray checked_offsets = {};

  // DATA_LOSS naming the graph unless the row is as it was sealed. Its length alone, for ragged
  // columns: CheckLength().
  absl::Status CheckRow(uint64_t row) const {
    if (!checked_data.has_checks()) return absl::OkStatus();
    return CheckStoredRow(row, /*with_data=*/true);
  }
  absl::Status CheckLength(uint64_t row) const {
    if (!checked_offsets.has_checks()) return absl::OkStatus();
    return CheckStoredRow(row, /*with_data=*/false);
  }
  template <typename Rows>
  absl::Status CheckRows(const Rows& rows) const {
    if (!checked_data.has_checks()) return absl::OkStatus();
    for (const uint64_t row : rows) {
      if (absl::Status sound = CheckStoredRow(row, /*with_data=*/true); !sound.ok()) return sound;
    }
    return absl::OkStatus();
  }
  template <typename Rows>
  absl::Status CheckLengths(const Rows& rows) const {
    if (!checked_offsets.has_checks()) return absl::OkStatus();
    for (const uint64_t row : rows) {
      if (absl::Status sound = CheckStoredRow(row, /*with_data=*/false); !sound.ok()) return sound;
    }
    return absl::OkStatus();
  }
  absl::Status CheckAll() const {
    if (absl::Status sound = checked_offsets.CheckAll(); !sound.ok()) return sound;
    return checked_data.CheckAll();
  }

 private:
  absl::Status CheckStoredRow(uint64_t row, bool with_data) const;
  absl::Status OutOfPlace(uint64_t row) const;
};

// Which row each node or edge of a set was where it came from: rows are counted from 0 over all
// that was appended to the set, in ascending order of (producer, sequence, row); so that of one
// import they are the rows of its file. Nodes that only edges name follow, in the order of their
// numbers. Rows must be checked before they are read, as those of columns.
class ImportedRows {
 public:
  // Number n was row n.
  ImportedRows() = default;
  // `numbers` has a uint32 or uint64 for each node or edge.
  explicit ImportedRows(const SourceColumn& numbers) : numbers_(numbers) {}

  bool is_identity() const { return numbers_.data == nullptr; }
  const SourceColumn& numbers() const { return numbers_; }
  uint64_t row(uint64_t number) const {
    if (is_identity()) return number;
    if (numbers_.row_bytes == sizeof(uint32_t)) return At<uint32_t>(number);
    return At<uint64_t>(number);
  }

 private:
  template <typename T>
  T At(uint64_t number) const {
    T row;
    std::memcpy(&row, numbers_.data + number * sizeof(T), sizeof(T));
    return row;
  }

  SourceColumn numbers_;
};

// The way back: which node, or none, each row became.
class NodesByRow {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Row n became node n.
  explicit NodesByRow(uint64_t num_nodes) : num_rows_(num_nodes) {}
  // `numbers` has a uint32 for each row.
  NodesByRow(const SourceColumn& numbers, uint64_t num_rows)
      : numbers_(numbers), num_rows_(num_rows) {}

  uint64_t num_rows() const { return num_rows_; }
  absl::Status CheckRow(uint64_t row) const {
    return numbers_.data == nullptr ? absl::OkStatus() : numbers_.CheckRow(row);
  }
  // Requires row < num_rows(). kNone: another row of the same node was taken.
  uint32_t node(uint64_t row) const {
    if (numbers_.data == nullptr) return static_cast<uint32_t>(row);
    uint32_t node;
    std::memcpy(&node, numbers_.data + row * sizeof(node), sizeof(node));
    return node;
  }

 private:
  SourceColumn numbers_;
  uint64_t num_rows_;
};

// Nodes of a set are numbered from 0 in table order, and so are edges. A set has at most 2^32 - 2
// nodes. Views live as long as the graph. Immutable; thread-safe.
class SourceGraph {
 public:
  static constexpr uint64_t kMaxNodes = (uint64_t{1} << 32) - 2;  // Of one set.

  virtual ~SourceGraph() = default;

  virtual const SourceGraphSchema& schema() const = 0;
  // A random number, never 0, drawn when the graph is sealed. The same version: the same graph.
  virtual uint64_t version() const = 0;
  virtual uint64_t num_nodes(size_t node_set) const = 0;
  virtual uint64_t num_edges(size_t edge_set) const = 0;
  // Edges by their source, or by their target. Edges of a row are in table order. For an edge set
  // that is the reverse of another, they are the other's with the ends exchanged.
  // FAILED_PRECONDITION naming the edge set if the graph was sealed without that direction;
  // DATA_LOSS naming the graph if they are damaged. The first call reads all of them, to check
  // that: some 10 GB a second once they are in memory.
  virtual absl::StatusOr<Adjacency> BySource(size_t edge_set) const = 0;
  virtual absl::StatusOr<Adjacency> ByTarget(size_t edge_set) const = 0;
  virtual SourceColumn NodeColumn(size_t node_set, size_t column) const = 0;
  virtual SourceColumn EdgeColumn(size_t edge_set, size_t column) const = 0;
  // The external ids of nodes: text as bytes (ragged), or int64 (row_bytes 8), as `integer_ids`
  // says.
  virtual SourceColumn NodeIds(size_t node_set) const = 0;
  virtual bool integer_ids(size_t node_set) const = 0;
  // A reversed edge set has the rows of the other.
  virtual ImportedRows NodeRows(size_t /*node_set*/) const { return ImportedRows(); }
  virtual ImportedRows EdgeRows(size_t /*edge_set*/) const { return ImportedRows(); }
  virtual NodesByRow NodesOfRows(size_t node_set) const { return NodesByRow(num_nodes(node_set)); }
  // DATA_LOSS naming the graph, for a reader who finds what cannot be: a node that there is not, a
  // row that ends before it begins.
  virtual absl::Status Damaged(absl::string_view why) const;
};

// The nodes that these rows became. OUT_OF_RANGE naming `what`, the row and the bound, for a row
// that there is not, or of whose node another row was taken; DATA_LOSS. O(rows).
absl::StatusOr<std::vector<uint32_t>> FindNodesOfRows(const SourceGraph& graph, size_t node_set,
                                                      absl::Span<const uint64_t> rows,
                                                      absl::string_view what);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_H_
