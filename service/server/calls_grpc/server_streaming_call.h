// Calls with one request and a stream of responses; server/calls/source_call.h says what happens
// when.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_SERVER_STREAMING_CALL_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_SERVER_STREAMING_CALL_H_

#include <memory>
#include <utility>

#include "grpcpp/server_context.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/source_call.h"
#include "service/server/calls_grpc/call_credentials.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/calls_grpc/stream_reactor.h"

namespace packhouse::rpc {

template <typename Request, typename Response>
class ServerStreamingCall {
 public:
  using Source = ResponseSource<Response>;
  using Work = typename SourceCall<Request, Response>::Work;

  // Starts a call, or refuses it if the gate does; `work` and `at_once` as in SourceCall. gRPC owns
  // the result.
  static CallReactor* Start(const CallContext& server, grpc::CallbackServerContext& peer,
                            Method method, Work work, Work at_once = nullptr) {
    auto* const reactor = new LinkReactor(&peer);
    reactor->set_call(SourceCall<Request, Response>::Start(ContextOf(server, peer), method, reactor,
                                                           std::move(work), std::move(at_once)));
    return reactor;
  }
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_GRPC_SERVER_STREAMING_CALL_H_
