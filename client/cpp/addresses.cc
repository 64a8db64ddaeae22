#include "client/cpp/addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kSchemes[] = {
    "ipv4:", "ipv6:", "dns:", "unix:", "unix-abstract:", "vsock:", "xds:", "passthrough:"};

std::string HostOf(absl::string_view address) {
  for (const absl::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  if (const size_t slash = address.rfind('/'); slash != absl::string_view::npos) {
    address.remove_prefix(slash + 1);
  }
  if (absl::ConsumePrefix(&address, "[")) address = address.substr(0, address.find(']'));
  // An IPv6 address has no port behind it.
  if (std::count(address.begin(), address.end(), ':') == 1) {
    address = address.substr(0, address.find(':'));
  }
  return absl::AsciiStrToLower(address);
}

// Whoever has an address may bind it.
bool CanBind(const sockaddr* address, socklen_t size) {
  const int probe = ::socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool can = ::bind(probe, address, size) == 0;
  ::close(probe);
  return can;
}

bool IsOwnNumber(const std::string& host) {
  sockaddr_in four = {};
  four.sin_family = AF_INET;
  if (::inet_pton(AF_INET, host.c_str(), &four.sin_addr) == 1) {
    return (ntohl(four.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET ||
           CanBind(reinterpret_cast<const sockaddr*>(&four), sizeof four);
  }
  sockaddr_in6 six = {};
  six.sin6_family = AF_INET6;
  if (::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&six.sin6_addr) ||
         CanBind(reinterpret_cast<const sockaddr*>(&six), sizeof six);
}

bool IsNameOfThisMachine(const std::string& host) {
  if (host == "localhost" || absl::EndsWith(host, ".localhost")) return true;
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 && host == absl::AsciiStrToLower(name);
}

// 0, or the number of the error.
int ConnectError(const sockaddr* address, socklen_t size, absl::Duration patience) {
  const int made = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) return errno;
  int error = ::connect(made, address, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waited = {made, POLLOUT, 0};
    socklen_t length = sizeof error;
    if (::poll(&waited, 1, static_cast<int>(absl::ToInt64Milliseconds(patience))) <= 0) {
      error = ETIMEDOUT;
    } else if (::getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &length) != 0) {
      error = errno;
    }
  }
  ::close(made);
  return error;
}

int SocketError(absl::string_view path, absl::Duration patience) {
  sockaddr_un socket = {};
  socket.sun_family = AF_UNIX;
  if (path.size() >= sizeof socket.sun_path) return ENAMETOOLONG;
  path.copy(socket.sun_path, path.size());
  return ConnectError(reinterpret_cast<const sockaddr*>(&socket), sizeof socket, patience);
}

std::string Meaning(int error) {
  switch (error) {
    case 0:
      return ": what listens there does not answer as gRPC";
    case ECONNREFUSED:
      return ": the connection is refused: no server listens there";
    case ENOENT:
      return ": there is no such socket";
    case ETIMEDOUT:
    case EAGAIN:
      return ": nothing answers there, as behind a firewall";
    default:
      return absl::StrCat(": ", std::strerror(error));
  }
}

}  // namespace

std::vector<std::string> AddressesOf(const std::string& addresses) {
  for (const absl::string_view scheme : kSchemes) {
    if (absl::StartsWith(addresses, scheme)) return {addresses};
  }
  std::vector<std::string> found;
  for (const absl::string_view each : absl::StrSplit(addresses, ',')) {
    const absl::string_view address = absl::StripAsciiWhitespace(each);
    if (!address.empty()) found.emplace_back(address);
  }
  if (found.empty()) found.push_back(addresses);
  return found;
}

bool IsOwnAddress(const std::string& address) {
  for (const absl::string_view scheme : {"unix:", "unix-abstract:", "vsock:"}) {
    if (absl::StartsWith(address, scheme)) return true;
  }
  const std::string host = HostOf(address);
  return IsNameOfThisMachine(host) || IsOwnNumber(host);
}

std::string ProxyVariable(const std::string& address) {
  if (IsOwnAddress(address)) return "";
  // gRPC takes the first that is set.
  for (const char* const variable : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const char* const proxy = std::getenv(variable);
    if (proxy != nullptr && *proxy != '\0') return variable;
  }
  return "";
}

std::string WhyUnreachable(const std::string& address, absl::Duration patience) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) return Meaning(SocketError(path, patience));
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 || absl::StrContains(address, '/') ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return "";
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) {
    return absl::StrCat(": the name '", host, "' is not resolved");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owned(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    error = ConnectError(each->ai_addr, each->ai_addrlen, patience);
    if (error == 0) break;
  }
  return Meaning(error);
}

}  // namespace packhouse::client
