// A unigraph: TF-GNN's schema of a whole graph, with a table of rows for each set.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_UNIGRAPH_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_UNIGRAPH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"

namespace packhouse::graph_files {

enum class TableFormat : uint8_t { kCsv, kTfrecord };

// By the name, as TF-GNN does: `tfrecord` or `tfrecords` after one of `_.-`, or the word `tfr`, is
// TFRecord; `csv` after one of `_.-` is CSV. INVALID_ARGUMENT naming anything else.
absl::StatusOr<TableFormat> TableFormatOf(absl::string_view filename);

// The rows of one set.
struct SetTable {
  bool is_edges = false;
  // The number of the set in the schema.
  size_t set = 0;
  // As the schema has it: a file, `base@N`, or a glob; relative to the schema's folder.
  std::string filename;
  TableFormat format = TableFormat::kCsv;
  // Whether the table's targets are the set's sources.
  bool is_swapped = false;
};

struct Unigraph {
  SourceGraphSchema schema;
  // Of node sets, then of edge sets; sets that are the reverse of another, and node sets whose
  // nodes only edges mention, have none.
  std::vector<SetTable> tables;
};

// The sets of a schema, text or binary, in the order of their names. Features become columns in the
// order of their names, a string one of text; a feature whose first dimension is -1 is ragged.
// Features called `#id`, `#source` and `#target` are the ids, which are kept in any case. Sets
// whose names begin with `_` are auxiliary, and are left out; so is the context.
//
// An edge set with `edge_type: "reversed"` is the reverse of the set that has the same table; if
// none has, its table is read with source and target swapped.
//
// INVALID_ARGUMENT: as ParseGraphSchema and ValidateGraphSchema; an edge set, or a node set with
// features, without a table; a table of another format; a feature whose dtype, further ragged
// dimensions, or dimensions of strings have no column. Names the set, the feature and the value.
absl::StatusOr<Unigraph> ParseUnigraph(absl::string_view schema_bytes);

}  // namespace packhouse::graph_files

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_UNIGRAPH_H_
