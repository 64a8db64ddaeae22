// Any sequence of bytes as the requests of a Pack stream, through decoders, validators, packer and
// collation. Whatever comes in: no crash, no batch beyond the limits, every accepted graph given
// out once.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "packhouse/v1/packing.pb.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/pack_handler.h"
#include "service/wings/tfgnn/tfgnn_format.h"
#include "tests/fuzz/message_stream.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/unwatched_streams.h"

namespace {

namespace v1 = packhouse::v1;

// The most real rows of a batch, by component.
using Usable = std::vector<uint64_t>;

// Empties the handler; counts the graphs that come out.
uint64_t TakeAll(packhouse::PackHandler& handler, Usable& usable) {
  uint64_t graphs = 0;
  for (;;) {
    auto response = handler.Next();
    if (response.ok() && !*response && handler.IsBusy()) continue;
    if (!response.ok() || !*response) return graphs;
    const v1::PackResponse message = packhouse::ToMessage(**response);
    if (message.has_opened()) {
      usable.clear();
      for (const v1::Capacity& capacity : message.opened().usable().capacities()) {
        usable.push_back(capacity.rows());
      }
    }
    if (message.has_tuned()) {
      if (!usable.empty()) std::abort();  // Limits, or a second choice.
      for (const v1::TunedCapacity& capacity : message.tuned().shapes(0).capacities()) {
        usable.push_back(capacity.usable_rows());
      }
    }
    if (!message.has_batch()) continue;
    const v1::Batch& batch = message.batch();
    graphs += packhouse::Uint64sFromWire(batch.graph_ids()).size();
    if (static_cast<size_t>(batch.real_rows_size()) != usable.size()) std::abort();
    for (int k = 0; k < batch.real_rows_size(); ++k) {
      const uint64_t bound = usable[static_cast<size_t>(k)];
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
  bounds.shape_search_steps = 1'000'000;
  packhouse::MemoryBudget working(uint64_t{64} << 20);
  packhouse::PackHandler handler(&clock, bounds, &histograms, &observers, &working, nullptr,
                                 nullptr, packhouse::TfgnnFormat());
  packhouse::MessageStream messages(data, size);
  Usable usable;
  while (const auto bytes = messages.Next()) {
    auto request = std::make_unique<v1::PackRequest>();
    if (!request->ParseFromString(*bytes)) continue;
    // Graphs without any byte of their own would make the fuzzer slow, not the service wrong.
    if (request->sizes().num_graphs() > 10000 || request->graphs().sizes().num_graphs() > 10000) {
      continue;
    }
    if (!handler.Accept(std::move(request)).ok()) break;
    TakeAll(handler, usable);
  }
  handler.HalfClose();
  TakeAll(handler, usable);
  return 0;
}
