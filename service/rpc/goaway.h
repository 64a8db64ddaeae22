// GOAWAY: telling clients to take their next calls elsewhere, while what they have begun goes on.
#ifndef PACKHOUSE_SERVICE_RPC_GOAWAY_H_
#define PACKHOUSE_SERVICE_RPC_GOAWAY_H_

#include "grpcpp/server.h"

namespace packhouse::rpc {

// Takes no connection any more, and sends GOAWAY on each that there is. Calls that are open, and
// those that a client had begun before it heard of it, go on as ever: none is refused. A connection
// closes when its last call has ended. May be called once, before Shutdown(); blocks for a moment.
// Must not be called on a thread of gRPC's, nor with channels of grpc::Server::InProcessChannel():
// they would break.
//
// grpc::Server::Shutdown() does the same, but it also answers every call with CANCELLED that comes
// from then on, and some always do: a client needs a round trip to hear of the GOAWAY.
void SendGoaway(grpc::Server& server);

// Whether a client is still connected.
bool HasConnections(grpc::Server& server);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_GOAWAY_H_
