#include "service/program/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "absl/strings/string_view.h"

namespace packhouse {

void TellServiceManager(const std::string& state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  const absl::string_view name = path;
  sockaddr_un manager = {};
  manager.sun_family = AF_UNIX;
  if (name.size() < 2 || name.size() >= sizeof(manager.sun_path)) return;
  name.copy(manager.sun_path, name.size());
  // A name that is no file.
  if (name[0] == '@') manager.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return;
  (void)!::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&manager),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
  ::close(socket);
}

}  // namespace packhouse
