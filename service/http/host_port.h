// Addresses to listen on.
#ifndef PACKHOUSE_SERVICE_HTTP_HOST_PORT_H_
#define PACKHOUSE_SERVICE_HTTP_HOST_PORT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace packhouse::http {

struct HostPort {
  std::string host;  // Without brackets.
  uint16_t port = 0;
};

// "host:port", with an IPv6 host in brackets. INVALID_ARGUMENT saying what is missing or wrong, for
// the caller to put behind the name of what it parses.
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);

// Listens; the descriptor is the caller's. "[::]" takes IPv4 too. INVALID_ARGUMENT if the host is
// not known, UNAVAILABLE, with the system's words, if no address of it can be listened on.
absl::StatusOr<int> Listen(const HostPort& address);

}  // namespace packhouse::http

#endif  // PACKHOUSE_SERVICE_HTTP_HOST_PORT_H_
