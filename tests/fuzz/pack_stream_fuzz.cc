// Any sequence of bytes as the requests of a Pack stream, through decoders, validators, packer and
// collation. Whatever comes in: no crash, no batch beyond the limits, every accepted graph given
// out once.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "packhouse/v1/packing.pb.h"
#include "service/wire/pack_handler.h"
#include "service/wire/wire_sizes.h"
#include "tests/fuzz/message_stream.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/unwatched_streams.h"

namespace {

namespace v1 = packhouse::v1;

// Empties the handler; counts the graphs that come out.
uint64_t TakeAll(packhouse::PackHandler& handler, v1::PackOpened& opened) {
  uint64_t graphs = 0;
  for (;;) {
    auto response = handler.Next();
    if (response.ok() && !*response && handler.IsBusy()) continue;
    if (!response.ok() || !*response) return graphs;
    const v1::PackResponse message = packhouse::ToMessage(**response);
    if (message.has_opened()) opened = message.opened();
    if (!message.has_batch()) continue;
    const v1::Batch& batch = message.batch();
    graphs += packhouse::Uint64sFromWire(batch.graph_ids()).size();
    if (batch.real_rows_size() != opened.usable().capacities_size()) std::abort();
    for (int k = 0; k < batch.real_rows_size(); ++k) {
      const uint64_t bound = opened.usable().capacities(k).rows();
      if (bound != 0 && batch.real_rows(k) > bound) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::SimulatedClock clock;
  packhouse::HistogramStore histograms({});
  packhouse::UnwatchedStreams observers;
  packhouse::StreamBounds bounds;
  bounds.max_batch_bytes = 1 << 16;
  bounds.max_graphs_per_batch = 1000;
  packhouse::MemoryBudget working(uint64_t{64} << 20);
  packhouse::PackHandler handler(&clock, bounds, &histograms, &observers, &working);
  packhouse::MessageStream messages(data, size);
  v1::PackOpened opened;
  while (const auto bytes = messages.Next()) {
    auto request = std::make_unique<v1::PackRequest>();
    if (!request->ParseFromString(*bytes)) continue;
    // Graphs without any byte of their own would make the fuzzer slow, not the service wrong.
    if (request->sizes().num_graphs() > 10000 || request->graphs().sizes().num_graphs() > 10000) {
      continue;
    }
    if (!handler.Accept(std::move(request)).ok()) break;
    TakeAll(handler, opened);
  }
  handler.HalfClose();
  TakeAll(handler, opened);
  return 0;
}
