#include "service/rpc/goaway.h"

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"

namespace packhouse::rpc {

// Members of grpc_core::Server, which gRPC uses itself where its configuration changes, but does
// not offer: its headers are not installed. A grpc_server is a grpc_core::Server, and a member
// function takes the object as its first argument. If another gRPC has them no more, this does not
// link.
void StopListening(grpc_server* server) __asm__("_ZN9grpc_core6Server13StopListeningEv");
void SendGoaways(grpc_server* server) __asm__("_ZN9grpc_core6Server11SendGoawaysEv");
bool HasOpenConnections(grpc_server* server) __asm__("_ZN9grpc_core6Server18HasOpenConnectionsEv");

void SendGoaway(grpc::Server& server) {
  absl::Notification sent;
  // gRPC's insides must run on a thread that gRPC has prepared for them, as it does for callbacks.
  grpc::Alarm alarm;
  alarm.Set(absl::ToChronoTime(absl::Now()), [&](bool /*ok*/) {
    StopListening(server.c_server());
    SendGoaways(server.c_server());
    sent.Notify();
  });
  sent.WaitForNotification();
}

bool HasConnections(grpc::Server& server) { return HasOpenConnections(server.c_server()); }

}  // namespace packhouse::rpc
