// What a call has brought with it, as gRPC gives it.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_CALL_CREDENTIALS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_CALL_CREDENTIALS_H_

#include "grpcpp/server_context.h"
#include "service/access/principal.h"
#include "service/server/calls/call_context.h"

namespace packhouse::rpc {

CallCredentials CredentialsOf(const grpc::CallbackServerContext& call);

// The context of a call. To be called once for each call. The answer's headers will have the
// `x-request-id` and the `traceparent` that came with it.
CallContext ContextOf(const CallContext& server, grpc::CallbackServerContext& call);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_CALL_CREDENTIALS_H_
