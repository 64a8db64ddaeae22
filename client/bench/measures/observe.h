// The speed of counting size tuples.
#ifndef PACKHOUSE_CLIENT_BENCH_MEASURES_OBSERVE_H_
#define PACKHOUSE_CLIENT_BENCH_MEASURES_OBSERVE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_setup.h"

namespace packhouse::client {

// A message is an answer. Bytes and graphs are those of the answered requests.
struct ObserveFigures {
  uint64_t chunk_tuples = 0;
  uint32_t chunks_per_answer = 1;
  Runs observe;
  // As many opaque bytes, answered in the same way.
  Runs upload;
};

// Observe in chunks of `chunk_tuples` size tuples, one answer for `chunks_per_answer` of them.
// Errors: those of the servers.
absl::StatusOr<ObserveFigures> MeasureObserve(const BenchSetup& setup, uint64_t chunk_tuples,
                                              uint32_t chunks_per_answer);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_MEASURES_OBSERVE_H_
