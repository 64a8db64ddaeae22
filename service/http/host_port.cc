#include "service/http/host_port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace packhouse::http {
namespace {

constexpr int kBacklog = 1024;

}  // namespace

absl::StatusOr<HostPort> ParseHostPort(const std::string& address) {
  const auto refused = [](const char* why) { return absl::InvalidArgumentError(why); };
  if (address.empty()) return refused("it is empty");
  const size_t colon = address.rfind(':');
  const size_t bracket = address.rfind(']');
  if (colon == std::string::npos || (bracket != std::string::npos && colon < bracket)) {
    return refused("the port is missing");
  }
  HostPort parsed = {.host = address.substr(0, colon)};
  if (parsed.host.empty()) return refused("the host is missing (0.0.0.0 for all of IPv4)");
  uint32_t port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return refused("the port is not a number from 0 to 65535");
  }
  parsed.port = static_cast<uint16_t>(port);
  if (parsed.host.front() == '[' && parsed.host.back() == ']') {
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  } else if (parsed.host.find(':') != std::string::npos) {
    return refused("an IPv6 host is in brackets, as in [::1]:9464");
  }
  return parsed;
}

absl::StatusOr<int> Listen(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          ::getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the host is not known: ", ::gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, each->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      error = errno;
      continue;
    }
    const int on = 1;
    const int off = 0;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (each->ai_family == AF_INET6) {
      ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (::bind(fd, each->ai_addr, each->ai_addrlen) == 0 && ::listen(fd, kBacklog) == 0) return fd;
    error = errno;
    ::close(fd);
  }
  return absl::UnavailableError(std::strerror(error));
}

}  // namespace packhouse::http
