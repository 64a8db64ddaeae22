// A server that moves opaque bytes: shows what gRPC alone can do, for comparison in
// `packhouse-bench`.
//
// Its one call is a stream. The first request says what comes back (CeilingRequest); the server
// then answers with the same buffer again and again: without end, or once for a given number of
// bytes of further requests. It neither looks at nor makes anything: no parsing, no packing, no
// copies.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_CEILING_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_CEILING_H_

#include <cstdint>
#include <string>

#include "CLI/App.hpp"
#include "grpcpp/support/byte_buffer.h"
#include "service/base/command_line/exit_code.h"

namespace packhouse::client {

inline constexpr char kCeilingMethod[] = "/packhouse.bench.Ceiling/Stream";
inline constexpr char kCeilingCommand[] = "ceiling";

struct CeilingRequest {
  // The size of each answer.
  uint64_t answer_bytes = 0;
  // One answer comes for each this many bytes of requests after the first. 0: answers come without
  // end.
  uint64_t bytes_per_answer = 0;
};

grpc::ByteBuffer ToByteBuffer(const CeilingRequest& request);

// Adds the subcommand: it prints `{"event":"listening","grpc":ADDRESS,"tcp":ADDRESS}` and serves
// until it is killed. A connection to the second address receives plain bytes without end.
void AddBenchCeilingCommand(CLI::App& app, ExitCode& code);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_CEILING_H_
