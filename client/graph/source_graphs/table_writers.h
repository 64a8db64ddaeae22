// Writes a graph's tables as files: a unigraph for TF-GNN, or a folder of .npy arrays.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_TABLE_WRITERS_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_TABLE_WRITERS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/source_graphs/source_tables.h"

namespace packhouse::client {

struct WrittenTables {
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
};

struct UnigraphOptions {
  // Of each table; above 1 the names are `nodes-SET.tfrecords-00000-of-N`.
  uint32_t shards = 1;
  // Numbers of nodes become `SET7`, as in TF-GNN's converter; otherwise `7`.
  bool ids_have_set_names = true;
};

// Writes `graph_schema.pbtxt`, `nodes-SET.tfrecords` and `edges-SET.tfrecords` into `folder`, which
// is made. The schema is written last: a folder without one was not finished. Requires columns that
// are not ragged, except texts and columns that are ragged along their first dimension.
//
// UNAVAILABLE naming a file that cannot be written; errors of the tables. Memory: a few megabytes.
absl::StatusOr<WrittenTables> WriteUnigraph(const SourceTables& tables, const std::string& folder,
                                            const UnigraphOptions& options);

// Writes the arrays of array_tables.h into `folder`, which is made: `nodes/SET/COLUMN.npy`, and so
// on. Ids must be the numbers of the rows; sets that are reverses are left out. Errors: as above;
// INVALID_ARGUMENT naming the set for texts, ragged columns, and other ids.
absl::StatusOr<WrittenTables> WriteArrays(const SourceTables& tables, const std::string& folder);

// How the id `number` of a node of `set` is called in a unigraph.
std::string UnigraphId(const std::string& set, int64_t number, const UnigraphOptions& options);

// Makes a folder and those above it. UNAVAILABLE naming it.
absl::Status MakeFolder(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_TABLE_WRITERS_H_
