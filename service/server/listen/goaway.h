// GOAWAY: tells clients to make their next calls elsewhere, while calls that have begun go on.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_GOAWAY_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_GOAWAY_H_

#include "grpcpp/server.h"

namespace packhouse::rpc {

// Stops taking connections, and sends GOAWAY on each existing one. Open calls, and calls that a
// client began before it received the GOAWAY, go on as usual; none is refused. A connection closes
// when its last call has ended. May be called once, before Shutdown(); blocks for a moment. Must
// not be called on a thread of gRPC, or if there are channels of grpc::Server::InProcessChannel():
// these would break.
//
// grpc::Server::Shutdown() does the same, but from then on it also answers every new call with
// CANCELLED. There are always some, since a client needs a round trip to receive the GOAWAY.
void SendGoaway(grpc::Server& server);

// Whether a client is still connected.
bool HasConnections(grpc::Server& server);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_GOAWAY_H_
