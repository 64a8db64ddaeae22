// A packhoused that the command starts itself, for users who have none running.
#ifndef PACKHOUSE_CLIENT_GRAPH_LOCAL_SERVER_H_
#define PACKHOUSE_CLIENT_GRAPH_LOCAL_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/server_process.h"

namespace packhouse::client {

// The server listens on a Unix socket in a fresh directory that only this user may enter. It is
// killed with this object, by SIGINT, SIGTERM and SIGHUP (for which Start sets handlers that then
// end the process as usual), and by the kernel if the thread that started it ends in another way.
// One at a time in a process; not thread-safe.
class LocalServer {
 public:
  // Starts the program that FindServerProgram names and waits until it is ready. Forks, so call it
  // before gRPC is used in this process.
  //
  // Errors: NOT_FOUND without a program; UNAVAILABLE, with the server's last words, if it ends or
  // is not ready in time; FAILED_PRECONDITION if there is one already.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start();

  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;
  ~LocalServer();

  // `unix:PATH`, for a channel.
  std::string address() const;

 private:
  LocalServer();

  std::unique_ptr<ServerProcess> process_;
};

// $PACKHOUSED if it is set; else packhoused beside this executable, then in ../../service from
// there (the build tree), then on $PATH.
//
// Errors: NOT_FOUND naming the places that were searched.
absl::StatusOr<std::string> FindServerProgram();

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_LOCAL_SERVER_H_
