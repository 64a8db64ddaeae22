// One large graph as arrays of numpy: a .npz archive, or a folder of .npy files.
//
// - `nodes/SET/COLUMN` [nodes, ...]: a column of a node set. `nodes/SET/#id` [nodes]: the ids of
// the
//   nodes, whole numbers; without it node n has the id n. `nodes/SET/#size`, one number: how many
//   nodes there are, for a set that has neither.
// - `edges/SOURCE.NAME.TARGET/source` and `.../target` [edges]: the ids of both ends, of the node
//   sets SOURCE and TARGET; or `.../edge_index` [2, edges]. `edges/SOURCE.NAME.TARGET/COLUMN`
//   [edges, ...]: a column. The edge set is called NAME if no other has that name, otherwise
//   SOURCE.NAME.TARGET. Where there is one node set only, `edges/NAME/...` will do.
//
// A node set of which only edges tell has the nodes at their ends. In a folder, `nodes/paper/x.npy`
// is the array `nodes/paper/x`. Rows are numbers, never texts: for those there are unigraphs.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_ARRAY_TABLES_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_ARRAY_TABLES_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// Errors: NOT_FOUND; INVALID_ARGUMENT naming the array and the value, for a name that means
// nothing, arrays of one set that differ in their rows, ends or ids that are no whole numbers.
absl::StatusOr<SourceTables> OpenNpzTables(const std::string& path);
absl::StatusOr<SourceTables> OpenNpyFolderTables(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_ARRAY_TABLES_H_
