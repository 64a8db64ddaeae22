// DGL's chunked graph: metadata.json, with edges in files of text and features in .npy files
// (service/wings/partition/files/chunked_layout.h). Nodes of a type are numbered from 0, which are
// their ids. An edge set is called RELATION of SOURCE:RELATION:TARGET if no other has that name.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CHUNKED_TABLES_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CHUNKED_TABLES_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// `path`: the metadata.json. Files of edges have `SOURCE TARGET` a line, without a header; features
// may be .npy files or the like text, with the numbers of a row in a line: int64 if all are whole
// numbers, bool if all are `true` or `false`, otherwise float64, as pyarrow reads them. Errors name
// file, line, field and value: also an edge whose end is no node, and rows that are more or fewer
// than the metadata says. Parquet is refused: the Python client reads it.
absl::StatusOr<SourceTables> OpenChunkedTables(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CHUNKED_TABLES_H_
