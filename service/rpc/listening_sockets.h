// The sockets that the server's clients connect to.
#ifndef PACKHOUSE_SERVICE_RPC_LISTENING_SOCKETS_H_
#define PACKHOUSE_SERVICE_RPC_LISTENING_SOCKETS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace packhouse::rpc {

// Closed when it is destroyed; the path of a unix socket is removed then. Thread-compatible.
class ListeningSockets {
 public:
  // At "host:port" (port 0: any free one, the same for all addresses of the host) or "unix:/path",
  // where a socket that is there is taken for one that was left behind. 0.0.0.0 and [::] stand for
  // all addresses of either kind. Two processes cannot listen on one port.
  //
  // UNAVAILABLE with the address, and what the system says, if there is no address of it that can
  // be listened on.
  static absl::StatusOr<ListeningSockets> Open(const std::string& address);

  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&&) = delete;
  ~ListeningSockets();

  // Nobody is let in any more, also of those who wait to be accepted.
  void Close();

  // Not blocking; none once closed.
  const std::vector<int>& sockets() const { return sockets_; }
  // With the port that it became.
  const std::string& address() const { return address_; }

 private:
  explicit ListeningSockets(std::string address) : address_(std::move(address)) {}

  std::string address_;
  std::vector<int> sockets_;
  std::string path_;  // Of a unix socket.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_LISTENING_SOCKETS_H_
