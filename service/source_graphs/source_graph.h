// One large graph, sealed: what samplers and partitioners read.
//
// Start here: SourceGraph is the interface; MemorySourceGraph has its arrays in memory.
#ifndef PACKHOUSE_SERVICE_SOURCE_GRAPHS_SOURCE_GRAPH_H_
#define PACKHOUSE_SERVICE_SOURCE_GRAPHS_SOURCE_GRAPH_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/source_graphs/checked_array.h"
#include "service/source_graphs/source_graph_schema.h"

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
  // DATA_LOSS naming the graph, for a reader who finds what cannot be: a node that there is not, a
  // row that ends before it begins.
  virtual absl::Status Damaged(absl::string_view why) const;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SOURCE_GRAPHS_SOURCE_GRAPH_H_
