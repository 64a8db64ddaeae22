// What a server has of source graphs.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_GRAPH_SERVER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_GRAPH_SERVER_H_

#include "service/server/services/server_wing.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse::rpc {

// For ServerOptions::wings: the services of source graphs, and epochs of sub-graphs. `graphs`,
// which must be thread-safe, must outlive the server; null: every call about them is
// FAILED_PRECONDITION.
MakeServerWing ServeGraphs(SourceGraphStore* graphs);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_GRAPH_SERVER_H_
