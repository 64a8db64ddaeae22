// The speed of batches: Load and Pack compared with opaque bytes.
#ifndef PACKHOUSE_CLIENT_BENCH_MEASURES_DELIVERY_H_
#define PACKHOUSE_CLIENT_BENCH_MEASURES_DELIVERY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_setup.h"
#include "client/cpp/loader.h"
#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/sizes.pb.h"

namespace packhouse::client {

// Batches of one shape over `streams` connections. Measures that were not asked for have no runs.
struct DeliveryFigures {
  uint64_t payload_bytes = 0;
  std::size_t streams = 0;
  // As many opaque bytes as a batch has: only down; and up and down, as with Pack.
  Runs download;
  Runs exchange;
  Runs load;
  // The same through the C++ client's Loader.
  Runs loader;
  // The same by a lane (docs/lane.md).
  Runs lane;
  Runs pack;
  // The same through the C++ client's PackStream, by lanes both ways.
  Runs pack_lane;
  // Load and Pack of the same batches with integers as narrow as they fit.
  Runs narrow_load;
  Runs narrow_pack;
};

struct DeliveryWishes {
  bool load = false;
  // Pack, and the exchange beside it.
  bool pack = false;
  // Of those that are wanted, the narrow ones as well.
  bool narrow = false;
};

// What the benchmark's workers load: epochs of padded batches within the limits.
LoaderOptions BenchLoaderOptions(const std::string& job, const v1::Limits& limits,
                                 v1::IntegerWidth width);

// Errors: those of the servers and of the streams.
absl::StatusOr<DeliveryFigures> MeasureDelivery(const BenchSetup& setup, uint64_t payload_bytes,
                                                std::size_t streams, DeliveryWishes wishes);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_MEASURES_DELIVERY_H_
