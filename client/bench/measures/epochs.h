// The first epochs of a data set, one by one, and what each costs.
#ifndef PACKHOUSE_CLIENT_BENCH_MEASURES_EPOCHS_H_
#define PACKHOUSE_CLIENT_BENCH_MEASURES_EPOCHS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "client/bench/bench_sample.h"
#include "client/bench/bench_setup.h"

namespace packhouse::client {

struct EpochFigures {
  // Every run has a server of its own, since a copy of the graphs is made in the second epoch.
  static constexpr std::size_t kEpochs = 4;

  uint64_t payload_bytes = 0;
  // Epochs from their opening to their end: by gRPC, and by a lane (docs/lane.md).
  std::array<Runs, kEpochs> loader;
  std::array<Runs, kEpochs> lane;
};

// One stream, through the C++ client's Loader. Errors: those of the server.
absl::StatusOr<EpochFigures> MeasureEpochs(const BenchSetup& setup, uint64_t payload_bytes);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_MEASURES_EPOCHS_H_
