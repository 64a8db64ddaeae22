#include "client/bench/measures/epochs.h"

#include <memory>
#include <utility>

#include "client/bench/bench_window.h"
#include "client/bench/measures/delivery.h"
#include "client/cpp/job_client.h"
#include "client/cpp/loader.h"
#include "service/base/status_macros.h"

namespace packhouse::client {
namespace {

// Adds an epoch to each of `epochs`.
absl::Status LoadEpochs(const BenchSetup& setup, uint64_t payload_bytes, LaneUse lane,
                        std::array<Runs, EpochFigures::kEpochs>& epochs) {
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<BenchServer> server, setup.StartPackhoused(1));
  LoaderOptions options = BenchLoaderOptions(
      "epochs", LimitsForPayload(setup.graphs(), payload_bytes), v1::INTEGER_WIDTH_DECLARED);
  options.lane = lane;
  Loader loader(server->channel(0), std::move(options));
  for (Runs& runs : epochs) {
    RunSample sample;
    const Window window(server->pid());
    for (;;) {
      PH_ASSIGN_OR_RETURN(const auto batch, loader.Next());
      if (batch == nullptr) break;
      ++sample.messages;
      sample.bytes += batch->view.response_bytes();
      sample.graphs += batch->view.num_graphs();
    }
    window.End(sample);
    runs.push_back(std::move(sample));
    PH_RETURN_IF_ERROR(loader.SetEpoch(loader.epoch() + 1));
  }
  // The next run begins with the same epoch.
  return JobClient(server->channel(0)).Delete("epochs");
}

}  // namespace

absl::StatusOr<EpochFigures> MeasureEpochs(const BenchSetup& setup, uint64_t payload_bytes) {
  EpochFigures figures;
  figures.payload_bytes = payload_bytes;
  for (int run = 0; run < setup.settings().runs; ++run) {
    PH_RETURN_IF_ERROR(LoadEpochs(setup, payload_bytes, LaneUse::kOff, figures.loader));
    PH_RETURN_IF_ERROR(LoadEpochs(setup, payload_bytes, LaneUse::kRequired, figures.lane));
  }
  return figures;
}

}  // namespace packhouse::client
