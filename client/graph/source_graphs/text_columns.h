// Files of numbers without a header, one row a line: edges and features of OGB and of DGL's chunks.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_TEXT_COLUMNS_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_TEXT_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/source_graphs/csv_file.h"
#include "client/graph/source_graphs/npy_stream.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// The files of a column or of edges, one after the other.
struct TextFiles {
  std::vector<std::string> paths;
  char delimiter = ',';
};

// What the fields of some files are.
struct TextKind {
  // Of the first record; 0 if there is none.
  size_t fields = 0;
  // Every field is a whole number in decimal, if it fits an int64 or not. Also if there is none.
  bool is_whole = true;
  // Every field is `true` or `false`, in any case; false if there is none.
  bool is_bool = false;
};

// Reads as far as it has to: to the end of files of whole numbers. Errors of CsvFile.
absl::StatusOr<TextKind> KindOfTexts(const TextFiles& files);

// Where the rows of a column come from: either texts or arrays.
struct RowColumn {
  SourceColumnSpec spec;
  TextFiles texts;
  // Whether an empty field is NaN. Otherwise it is an error, as any text that is no number.
  bool has_gaps = false;
  std::vector<NpyArray> arrays;
};

// Nodes 0 to num_nodes - 1 with these columns, which must have as many rows.
OpenTable ReadNumberedNodes(size_t set, uint64_t num_nodes, std::vector<RowColumn> columns);

struct PairedEdges {
  size_t set = 0;
  TextFiles files;
  // Instead of the files: of whole numbers, of the shape [edges, 2] each.
  std::vector<NpyArray> arrays;
  // What the files must have.
  uint64_t num_edges = 0;
  uint64_t num_sources = 0;
  uint64_t num_targets = 0;
  // Each edge of the files is there in both directions, one behind the other, with the same
  // columns.
  bool has_inverses = false;
  std::vector<RowColumn> columns;
};

// INVALID_ARGUMENT naming file, line, field and value (of arrays the row) for an end that is no
// node, and the numbers for more or fewer edges.
OpenTable ReadPairedEdges(PairedEdges edges);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_TEXT_COLUMNS_H_
