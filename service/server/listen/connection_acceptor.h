// Accepts connections up to a bound, and hands them to gRPC.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_CONNECTION_ACCEPTOR_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_CONNECTION_ACCEPTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_builder.h"
#include "service/access/client_identity.h"
#include "service/access/fair_bound.h"
#include "service/base/execution.h"
#include "service/base/limited_log.h"
#include "service/base/listening_sockets.h"

namespace packhouse::rpc {

// gRPC accepts every connection until there are no file descriptors left; even an idle connection
// takes some 19 KB. Here a connection beyond a bound is closed at once, before gRPC gets it, and
// its client tries again with growing delays.
//
// gRPC does not report when it closes a connection. So if there seem to be too many, all known
// connections are checked: a descriptor that is no longer the same socket was closed.
//
// Thread-safe.
class ConnectionAcceptor {
 public:
  // The pointees must outlive this; the log may be null.
  ConnectionAcceptor(ListeningSockets sockets, const FairBound::Bounds& bounds,
                     const ClientIdentity* identity, LimitedLog* log);
  // Stops.
  ~ConnectionAcceptor();

  const std::string& address() const { return sockets_.address(); }

  // From now on accepts connections on a thread of its own; the server must have started. May be
  // called once.
  void Start(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);

  // Stops accepting. To be called before gRPC's server stops listening or ends.
  void Stop();

  // For this long, a client of which a connection was ended gets no other one.
  static constexpr absl::Duration kBarred = absl::Seconds(1);

  // Ends a connection by its name (connection_calls.h), if it is open, and logs why: its client is
  // told that the connection was closed, and gRPC that the client has gone. O(connections).
  void End(const std::string& name, const absl::Status& why);

  // Connections that are open now.
  size_t num_connections();

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  struct Connection {
    int descriptor = -1;
    uint64_t socket = 0;  // Its inode.
    std::string name;
    FairBound::Place place;
  };

  void Run();
  // False if no connection waits to be accepted.
  bool AcceptOne(int listener);
  // Whether the connection is allowed; if not, its client has been logged.
  bool Admit(int descriptor);
  absl::Status Enter(int descriptor, const std::string& peer, const ClientId& client)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CheckBarred(const ClientId& client) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Log(absl::string_view event, const ClientId& client, const absl::Status& why);

  ListeningSockets sockets_;  // Used by the thread while it runs.
  const ClientIdentity* const identity_;
  LimitedLog* const log_;
  FairBound bound_;
  std::unique_ptr<Acceptor> acceptor_;
  int wake_ = -1;  // An eventfd: readable once the thread should stop.
  Thread thread_;

  absl::Mutex mutex_;
  // Checking all takes time, so it happens at most a tenth of the time.
  absl::Time next_look_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::vector<Connection> connections_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<ClientId, absl::Time> barred_until_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_CONNECTION_ACCEPTOR_H_
