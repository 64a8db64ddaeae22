#include "client/bench/bench_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace packhouse::client {
namespace {

int PortIn(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

bool ListensOnOrIsConnectedTo(int fd, int port) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  int is_listening = 0;
  socklen_t flag_size = sizeof(is_listening);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag_size) != 0) return false;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const int got =
      is_listening != 0 ? getsockname(fd, general, &size) : getpeername(fd, general, &size);
  return got == 0 && PortIn(address) == port;
}

}  // namespace

std::string DefaultCongestionControl() {
  std::ifstream file("/proc/sys/net/ipv4/tcp_congestion_control");
  std::string name;
  file >> name;
  return name;
}

int PortOf(absl::string_view address) {
  int port = 0;
  const std::size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return 0;
  return absl::SimpleAtoi(address.substr(colon + 1), &port) ? port : 0;
}

absl::Status SetCongestionControl(int port, const std::string& algorithm) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return absl::UnavailableError("cannot read /proc/self/fd");
  while (const dirent* const entry = readdir(folder.get())) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd) || !ListensOnOrIsConnectedTo(fd, port)) continue;
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm.data(),
                   static_cast<socklen_t>(algorithm.size())) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("TCP congestion control '", algorithm, "': ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
