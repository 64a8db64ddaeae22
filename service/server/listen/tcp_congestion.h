// TCP congestion control of the server's listening sockets.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_TCP_CONGESTION_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_TCP_CONGESTION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse::rpc {

// Sets the algorithm ("reno", "cubic") of the sockets on which this process listens at `address`,
// "host:port"; connections accepted from then on inherit it. gRPC has no public access to its
// sockets, so they are searched among the process's open files.
//
// Errors: INVALID_ARGUMENT naming the algorithm if the kernel does not have it or this user may not
// choose it (net.ipv4.tcp_allowed_congestion_control), or if `address` is not TCP.
absl::Status SetTcpCongestion(absl::string_view address, const std::string& algorithm);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_TCP_CONGESTION_H_
