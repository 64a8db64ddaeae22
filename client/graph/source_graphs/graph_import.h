// Stores a graph's tables in a server, in a way that can be interrupted and begun again.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_IMPORT_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_IMPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/servers.h"
#include "client/graph/source_graphs/source_tables.h"
#include "packhouse/v1/source_graph.pb.h"

namespace packhouse::client {

struct GraphImportTotals {
  uint64_t nodes = 0;
  uint64_t edges = 0;
  // Of these, rows that an earlier run had stored.
  uint64_t rows_present = 0;
  uint64_t bytes = 0;
};

struct GraphImportOptions {
  std::string graph;
  // Empty: made from the source's fingerprint and chunk_bytes.
  std::string producer;
  // Of a request, about. Another value cuts the rows otherwise, so that an import that was
  // interrupted goes on only with the same one.
  std::size_t chunk_bytes = std::size_t{4} << 20;
  // Of the graph, when it is created. 0: the server's bound.
  uint64_t max_bytes = 0;
  v1::EdgeLookup lookup = v1::EDGE_LOOKUP_UNSPECIFIED;
  v1::DuplicateNodes duplicates = v1::DUPLICATE_NODES_UNSPECIFIED;
  bool seal = false;
  // Sealing refuses an edge that ends at a node without a row.
  bool appended_only = false;
  RetryOptions retry;
  // May be null. `sealed` is in [0, 1], below 0 before sealing.
  std::function<void(const GraphImportTotals& totals, double sealed)> on_progress;
};

struct GraphImportResult {
  GraphImportTotals totals;
  // As it is now.
  v1::SourceGraph graph;
  // A line for each node set that was sealed with more nodes than rows: edges end at nodes that
  // have none, whose columns are zeros. Sets of which the files have no table are left out.
  std::vector<std::string> notes;
};

// Creates the graph if the server does not have it, appends all rows, and seals it if asked to.
// Rows that an earlier import of the same source stored are not stored again.
//
// FAILED_PRECONDITION naming the difference if the graph has another schema, or saying that it is
// sealed, or that it was created without `appended_only`; errors of the tables, of
// SourceGraphClient and of SourceGraphAppender. Memory: some requests.
absl::StatusOr<GraphImportResult> ImportGraph(const GraphImportOptions& options,
                                              const Servers& servers, const SourceTables& tables);

// How the first set that differs does so; empty: the schemas mean the same.
std::string SchemaDifference(const v1::SourceGraphSchema& there, const v1::SourceGraphSchema& ours);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_GRAPH_IMPORT_H_
