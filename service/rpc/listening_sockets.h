// The sockets that the server's clients connect to.
#ifndef PACKHOUSE_SERVICE_RPC_LISTENING_SOCKETS_H_
#define PACKHOUSE_SERVICE_RPC_LISTENING_SOCKETS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace packhouse::rpc {

// Who may open a unix socket. kOwner: the user that the server runs as (and root); kUmask: whom the
// process' umask lets.
enum class SocketAccess { kUmask, kOwner };

// The destructor closes the sockets, and removes the path of a unix socket. Thread-compatible.
class ListeningSockets {
 public:
  // Listens at "host:port" (port 0: any free one, the same for all addresses of the host) or at
  // "unix:/path", where a socket that nobody listens at is replaced. 0.0.0.0 and [::] stand for all
  // addresses of both kinds. Two processes cannot listen on one port, or at one path. `access` is
  // about unix sockets alone.
  //
  // UNAVAILABLE with the address and the system's message, if none of its addresses can be listened
  // on.
  static absl::StatusOr<ListeningSockets> Open(const std::string& address,
                                               SocketAccess access = SocketAccess::kUmask);

  ListeningSockets(ListeningSockets&& other) noexcept;
  ListeningSockets& operator=(ListeningSockets&&) = delete;
  ~ListeningSockets();

  // Accepts nothing more, not even connections that wait to be accepted.
  void Close();

  // Not blocking; none once closed.
  const std::vector<int>& sockets() const { return sockets_; }
  // The address with the actual port.
  const std::string& address() const { return address_; }

 private:
  explicit ListeningSockets(std::string address) : address_(std::move(address)) {}

  std::string address_;
  std::vector<int> sockets_;
  std::string path_;  // Of a unix socket.
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_LISTENING_SOCKETS_H_
