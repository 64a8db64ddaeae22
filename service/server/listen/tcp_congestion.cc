#include "service/server/listen/tcp_congestion.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace packhouse::rpc {
namespace {

bool ListensOn(int fd, int port) {
  int is_listening = 0;
  socklen_t size = sizeof(is_listening);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &size) != 0 || is_listening == 0) {
    return false;
  }
  sockaddr_storage address{};
  size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  switch (address.ss_family) {
    case AF_INET:
      return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port) == port;
    case AF_INET6:
      return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port) == port;
    default:
      return false;
  }
}

}  // namespace

absl::Status SetTcpCongestion(absl::string_view address, const std::string& algorithm) {
  int port = 0;
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("TCP congestion control '", algorithm, "': '", address, "' is not TCP"));
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return absl::UnavailableError("cannot read /proc/self/fd");
  while (const dirent* const entry = readdir(folder.get())) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd) || !ListensOn(fd, port)) continue;
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(),
                   static_cast<socklen_t>(algorithm.size())) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("TCP congestion control '", algorithm, "': ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse::rpc
