// What gRPC itself is told to bound.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_GRPC_SETTINGS_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_GRPC_SETTINGS_H_

#include "grpcpp/server_builder.h"
#include "service/server/services/server_bounds.h"
#include "service/server/services/server_options.h"

namespace packhouse::rpc {

// Messages, memory, streams and windows, the age of connections, and when a client counts as gone.
void SetUpGrpc(grpc::ServerBuilder& builder, const ServerOptions& options,
               const ServerBounds& bounds);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_GRPC_SETTINGS_H_
