// The end of a server, in which no call that has begun is lost without need.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_SERVER_DRAIN_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_SERVER_DRAIN_H_

#include <functional>

#include "grpcpp/server.h"
#include "service/base/clock.h"
#include "service/server/calls/gate.h"
#include "service/server/calls_grpc/in_process_calls.h"
#include "service/server/listen/connection_acceptor.h"
#include "service/server/services/health_service.h"
#include "service/server/services/loader_service.h"
#include "service/server/services/server_options.h"

namespace packhouse::rpc {

// What is told of the end, or is waited for.
struct DrainedParts {
  Clock* clock = nullptr;
  Gate* gate = nullptr;
  HealthService* health = nullptr;
  LoaderService* loads = nullptr;
  InProcessCalls* page_calls = nullptr;             // Null: there is no page.
  ConnectionAcceptor* connections = nullptr;        // Null without an address.
  ConnectionAcceptor* admin_connections = nullptr;  // Null without a socket for administrators.
  grpc::Server* server = nullptr;
  grpc::Server* admin_server = nullptr;
  // ServerOptions::leave_cluster; may be null.
  std::function<void()> leave_cluster = nullptr;
};

// The order of the end:
// 1. Lame duck: health says NOT_SERVING. Everything is served.
// 2. No connection is taken any more, and streams of Health.Watch end. GOAWAY on each that there is
//    (goaway.h): the next call of a client goes to another server; calls that had been begun are
//    served. At the same time Load streams end where they are, with UNAVAILABLE after what was made
//    for them: their workers go on with another server, or with this one when it is back.
//    Acknowledgements are taken until the last connection has closed.
// 3. Other streams and calls go on until they have ended, or until the timeout.
// 4. The gate closes. Streams that are open even now end with UNAVAILABLE; what cannot end, because
//    its client does not read, is cancelled.
// Administrators are served until step 4.
// A server without an address has no connections: there the gate closes in step 2.
//
// To be called once. Ends within both times and a little more; then nobody calls the server any
// more, and nobody is on its pools. The lame-duck time is measured by the clock.
void DrainServer(const DrainedParts& parts, const DrainOptions& options);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_SERVER_DRAIN_H_
