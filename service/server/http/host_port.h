// Addresses to listen on.
#ifndef PACKHOUSE_SERVICE_SERVER_HTTP_HOST_PORT_H_
#define PACKHOUSE_SERVICE_SERVER_HTTP_HOST_PORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace packhouse::http {

struct HostPort {
  std::string host;  // Without brackets.
  uint16_t port = 0;
};

// "host:port", with an IPv6 host in brackets. INVALID_ARGUMENT saying what is missing or wrong; the
// caller puts the name of what it parses before it.
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_SERVER_HTTP_HOST_PORT_H_
