#include "client/cpp/addresses.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
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

}  // namespace packhouse::client
