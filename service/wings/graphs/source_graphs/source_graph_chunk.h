// Rows of nodes and edges that are appended to a source graph together, as they came: columnar.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_CHUNK_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace packhouse {

// The external ids of nodes, one a row. A node set has ids of one kind.
struct SourceIdRows {
  bool integers = true;
  // Integers: 8 bytes a row, little-endian int64. Text: the bytes of all ids, joined.
  absl::string_view data;
  // Text: 4 bytes a row, little-endian uint32: the bytes of each id. Otherwise empty.
  absl::string_view lengths;
};

// The rows of one column, little-endian and dense, joined.
struct SourceColumnRows {
  absl::string_view data;
  // Ragged columns: 4 bytes a row, little-endian uint32: the steps of each row. Otherwise empty.
  absl::string_view lengths;
};

struct SourceNodeRows {
  size_t node_set = 0;
  uint64_t num_rows = 0;
  SourceIdRows ids;
  std::vector<SourceColumnRows> columns;  // As the schema has them.
};

struct SourceEdgeRows {
  size_t edge_set = 0;
  uint64_t num_rows = 0;
  SourceIdRows sources;
  SourceIdRows targets;
  std::vector<SourceColumnRows> columns;  // As the schema has them.
};

// Views of bytes that somebody else keeps. A set is in a chunk at most once.
struct SourceGraphChunk {
  std::vector<SourceNodeRows> nodes;
  std::vector<SourceEdgeRows> edges;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SOURCE_GRAPHS_SOURCE_GRAPH_CHUNK_H_
