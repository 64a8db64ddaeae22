// Any sequence of bytes as the requests of a Sample stream, on a small graph: through the reading
// of specs and seeds, draws, packer and collation. Whatever comes in: no crash, no batch beyond the
// limits, and no more sub-graphs than seeds.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "packhouse/v1/sampling.pb.h"
#include "service/server/calls/wire_sizes.h"
#include "service/wings/graphs/services/sample_handler.h"
#include "tests/fuzz/message_stream.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/unwatched_streams.h"

namespace {

namespace v1 = packhouse::v1;

// Every seed counts, whether it was refused or not.
uint64_t SeedsOf(const v1::Seeds& seeds) {
  return seeds.numbers().size() / 4 + seeds.ids().integers().size() / 8 +
         seeds.ids().text().lengths().size() / 4;
}

// Empties the handler; counts the sub-graphs that come out.
uint64_t TakeAll(packhouse::SampleHandler& handler, std::vector<uint64_t>& usable) {
  uint64_t graphs = 0;
  for (;;) {
    auto response = handler.Next();
    if (response.ok() && !*response && handler.IsBusy()) continue;
    if (!response.ok()) {
      if (response.status().code() == absl::StatusCode::kInternal) std::abort();
      return graphs;
    }
    if (!*response) return graphs;
    const v1::SampleResponse message = packhouse::ToMessage(**response);
    for (const v1::Capacity& capacity : message.opened().usable().capacities()) {
      usable.push_back(capacity.rows());
    }
    graphs += message.graphs().sizes().num_graphs();
    if (!message.has_batch()) continue;
    const v1::Batch& batch = message.batch();
    graphs += packhouse::Uint64sFromWire(batch.graph_ids()).size();
    const size_t bounded = std::min(usable.size(), static_cast<size_t>(batch.real_rows_size()));
    for (size_t k = 0; k < bounded; ++k) {
      if (usable[k] != 0 && batch.real_rows(static_cast<int>(k)) > usable[k]) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static packhouse::OneGraphStore graphs(packhouse::SmallSourceGraph(100));
  packhouse::SimulatedClock clock;
  packhouse::HistogramStore histograms({});
  packhouse::UnwatchedStreams observers;
  packhouse::StreamBounds bounds;
  bounds.max_batch_bytes = 1 << 16;
  bounds.max_graphs_per_batch = 1000;
  bounds.shape_search_steps = 1'000'000;
  packhouse::MemoryBudget working(uint64_t{64} << 20);
  packhouse::SampleHandler handler(
      &graphs,
      std::make_unique<packhouse::PackHandler>(&clock, bounds, &histograms, &observers, &working),
      &working, nullptr);
  packhouse::MessageStream messages(data, size);
  std::vector<uint64_t> usable;
  uint64_t seeds = 0;
  uint64_t graphs_out = 0;
  while (const auto bytes = messages.Next()) {
    auto request = std::make_unique<v1::SampleRequest>();
    if (!request->ParseFromString(*bytes)) continue;
    seeds += SeedsOf(request->seeds().seeds());
    if (!handler.Accept(std::move(request)).ok()) break;
    graphs_out += TakeAll(handler, usable);
  }
  handler.HalfClose();
  graphs_out += TakeAll(handler, usable);
  if (graphs_out > seeds) std::abort();
  return 0;
}
