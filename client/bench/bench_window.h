// One run of a measurement: the messages and their cost within a window of time.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_WINDOW_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_WINDOW_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_stream.h"

namespace packhouse::client {

// Measures what this process, a server and all other processes use between its construction and
// End.
class Window {
 public:
  explicit Window(pid_t server);

  // As Arrival.nanos.
  int64_t begin() const { return begin_; }

  // Fills in seconds, CPU times, memory and the share of others. Returns the time of the end.
  int64_t End(RunSample& sample) const;

 private:
  const pid_t server_;
  const absl::Duration machine_cpu_;
  const absl::Duration server_cpu_;
  const absl::Duration own_cpu_;
  const int64_t begin_;
};

using MakeStream = absl::FunctionRef<std::unique_ptr<BenchStream>(std::size_t number)>;

// Starts the streams and waits until each has begun. A little later, counts what comes in a window
// of `seconds`, and ends the streams. `server` is the measured process.
//
// Errors: those of a stream that ended by itself; DEADLINE_EXCEEDED if one has not begun after a
// minute.
absl::StatusOr<RunSample> RunStreams(pid_t server, std::size_t num_streams, absl::Duration seconds,
                                     MakeStream make);

// The first sample of `run` during which other processes used at most `max_others` of the machine;
// or, when `patience` has been used up, the sample with the least use by others.
absl::StatusOr<RunSample> RunQuietly(double max_others, absl::Duration patience,
                                     absl::FunctionRef<absl::StatusOr<RunSample>()> run);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_WINDOW_H_
