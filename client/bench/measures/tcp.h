// Plain TCP between two processes: gRPC cannot be faster.
#ifndef PACKHOUSE_CLIENT_BENCH_MEASURES_TCP_H_
#define PACKHOUSE_CLIENT_BENCH_MEASURES_TCP_H_

#include "absl/status/statusor.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_setup.h"

namespace packhouse::client {

// One connection with an endless stream of bytes. A message is the result of one `recv`.
//
// Errors: those of the server; UNAVAILABLE if the kernel gives no socket.
absl::StatusOr<Runs> MeasureTcp(const BenchSetup& setup);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_MEASURES_TCP_H_
