#include "service/server/listen/goaway.h"

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "service/server/calls_grpc/steady_deadline.h"

namespace packhouse::rpc {

// Members of grpc_core::Server. gRPC itself uses them when its configuration changes, but does not
// offer them: its headers are not installed. A grpc_server is a grpc_core::Server, and a member
// function takes the object as its first argument. If a later gRPC no longer has them, this does
// not link.
void StopListening(grpc_server* server) __asm__("_ZN9grpc_core6Server13StopListeningEv");
void SendGoaways(grpc_server* server) __asm__("_ZN9grpc_core6Server11SendGoawaysEv");
bool HasOpenConnections(grpc_server* server) __asm__("_ZN9grpc_core6Server18HasOpenConnectionsEv");

void SendGoaway(grpc::Server& server) {
  absl::Notification sent;
  // gRPC's internals must run on a thread that gRPC has prepared, as it does for callbacks.
  grpc::Alarm alarm;
  alarm.Set(SteadyDeadline(absl::ZeroDuration()), [&](bool /*ok*/) {
    StopListening(server.c_server());
    SendGoaways(server.c_server());
    sent.Notify();
  });
  sent.WaitForNotification();
}

bool HasConnections(grpc::Server& server) { return HasOpenConnections(server.c_server()); }

}  // namespace packhouse::rpc
