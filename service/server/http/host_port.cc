#include "service/server/http/host_port.h"

#include "absl/strings/numbers.h"

namespace packhouse::http {

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

}  // namespace packhouse::http
