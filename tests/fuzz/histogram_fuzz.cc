// Any bytes as Observe and MergeHistogram requests. Whatever comes in: no crash, and what a
// histogram says of itself agrees with its tuples.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "packhouse/v1/histogram.pb.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/services/observe_handler.h"
#include "tests/fuzz/message_stream.h"
#include "tests/support/simulated_clock.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::SimulatedClock clock;
  packhouse::HistogramStore histograms(
      {.max_histograms = 4, .max_distinct = 64, .max_producers = 4});
  packhouse::ObserveHandler handler(&clock, &histograms);
  packhouse::MessageStream messages(data, size);
  while (const auto bytes = messages.Next()) {
    auto observe = std::make_unique<packhouse::v1::ObserveRequest>();
    if (observe->ParseFromString(*bytes) && observe->sizes().num_graphs() <= 10000) {
      const std::string name = observe->histogram();
      if (handler.Accept(std::move(observe)).ok()) (void)handler.Next();
    }
    packhouse::v1::MergeHistogramRequest merge;
    if (!merge.ParseFromString(*bytes)) continue;
    const auto addend = packhouse::HistogramFromWire(merge.addend());
    if (!addend.ok()) continue;
    packhouse::v1::Histogram wire;
    packhouse::HistogramToWire(addend->histogram, addend->schema, wire);
    const auto again = packhouse::HistogramFromWire(wire);
    if (!again.ok() || !(again->histogram == addend->histogram)) std::abort();
    const packhouse::HistogramKey key = {merge.histogram(), addend->schema};
    (void)(merge.subtract() ? histograms.Subtract(key, addend->histogram, std::nullopt, clock.Now())
                            : histograms.Merge(key, addend->histogram, std::nullopt, clock.Now()));
    const auto snapshot = histograms.Get(merge.histogram(), clock.Now());
    if (!snapshot.ok()) continue;
    uint64_t graphs = 0;
    for (size_t row = 0; row < snapshot->histogram.num_distinct(); ++row) {
      graphs += snapshot->histogram.count(row);
    }
    if (graphs != snapshot->histogram.num_graphs()) std::abort();
    if (snapshot->histogram.num_distinct() > 64) std::abort();
  }
  return 0;
}
