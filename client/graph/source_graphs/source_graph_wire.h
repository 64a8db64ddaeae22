// Rows and schemas of a graph's files as the contract's messages.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_SOURCE_GRAPH_WIRE_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_SOURCE_GRAPH_WIRE_H_

#include "client/graph/source_graphs/source_tables.h"
#include "packhouse/v1/source_graph.pb.h"

namespace packhouse::client {

// The schema with these ids; edges can be looked up as `lookup` says.
v1::SourceGraphSchema WireSourceSchema(const SourceTables& tables, v1::EdgeLookup lookup);

// The rows as one request without graph, producer and sequence.
v1::AppendSourceGraphRequest WireSourceRows(const SourceGraphSchema& schema,
                                            const graph_files::SourceRows& rows);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_SOURCE_GRAPH_WIRE_H_
