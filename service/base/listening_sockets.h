// The sockets that the server's clients connect to.
#ifndef PACKHOUSE_SERVICE_BASE_LISTENING_SOCKETS_H_
#define PACKHOUSE_SERVICE_BASE_LISTENING_SOCKETS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace packhouse {

// Who may open a unix socket. kOwner: the user that the server runs as (and root); kUmask: whom the
// process' umask lets.
enum class SocketAccess { kUmask, kOwner };

// What goes over a unix socket: bytes, or messages.
enum class SocketKind { kStream, kMessages };

// The destructor closes the sockets, and removes the path of a unix socket. Thread-compatible.
class ListeningSockets {
 public:
  // Listens at "host:port" (port 0: any free one, the same for all addresses of the host) or at
  // "unix:/path", where a socket that nobody listens at any more is replaced. 0.0.0.0 and [::]
  // stand for all addresses of both kinds. Two processes cannot listen on one port, or at one path.
  // `access` and `kind` are about unix sockets alone.
  //
  // UNAVAILABLE with the address and the system's message, if somebody else listens on one of its
  // addresses, or if it has none that this machine has.
  static absl::StatusOr<ListeningSockets> Open(const std::string& address,
                                               SocketAccess access = SocketAccess::kUmask,
                                               SocketKind kind = SocketKind::kStream);

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
  // Of a unix socket: its path, and which file that is.
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_LISTENING_SOCKETS_H_
