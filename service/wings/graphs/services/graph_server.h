// What a server has of source graphs.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_GRAPH_SERVER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_GRAPH_SERVER_H_

#include "service/server/services/server_wing.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse::rpc {

// For ServerOptions::wings: epochs of sub-graphs. `graphs`, which may be null, must outlive the
// server.
MakeServerWing ServeGraphs(const SourceGraphStore* graphs);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_GRAPH_SERVER_H_
