// TCP congestion control of the benchmark's own sockets.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_SOCKETS_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_SOCKETS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

// The kernel's default for new sockets, as `bbr`; empty if the kernel does not report it.
std::string DefaultCongestionControl();

// The port of `HOST:PORT`; 0 if there is none.
int PortOf(absl::string_view address);

// Sets the algorithm of every TCP socket of this process that listens on `port`, whose accepted
// connections inherit it, or is connected to it. gRPC has no public access to its sockets.
//
// Errors: INVALID_ARGUMENT naming the algorithm if the kernel does not have it or this user may not
// choose it.
absl::Status SetCongestionControl(int port, const std::string& algorithm);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_SOCKETS_H_
