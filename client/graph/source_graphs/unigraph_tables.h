// The tables of a unigraph, TF-GNN's schema of a whole graph with a table of rows for each set
// (service/wings/graphs/files/unigraph.h, table_rows.h).
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_UNIGRAPH_TABLES_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_UNIGRAPH_TABLES_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

// `schema_path`: the schema, text or binary; tables are found from its folder. Each shard of CSV
// has a header of its own. NOT_FOUND naming a file; INVALID_ARGUMENT as ParseUnigraph, and naming a
// table that is in no local file system.
absl::StatusOr<SourceTables> OpenUnigraphTables(const std::string& schema_path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_UNIGRAPH_TABLES_H_
