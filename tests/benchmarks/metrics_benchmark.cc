// What it costs to count an event, in one thread and in two that count the same thing, beside
// prometheus-cpp's own metrics in the same run. Time is CPU time of a thread; each iteration is one
// event.
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/metrics/event_metrics.h"
#include "service/server/metrics/metrics.h"

namespace packhouse::metrics {
namespace {

const std::vector<double> kBounds = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10};

// Values over all buckets.
double Value(uint64_t i) { return static_cast<double>(i * 0x9e3779b97f4a7c15 >> 32) * 4e-9; }

void BM_Counter(benchmark::State& state) {
  static EventMetrics metrics;
  static const EventMetrics::Counter added = metrics.AddCounter("c_total", "");
  EventMetrics::Counter counter = added;
  for (auto unused : state) counter.Increment();
}
BENCHMARK(BM_Counter)->Threads(1)->Threads(2);

void BM_PrometheusCounter(benchmark::State& state) {
  static prometheus::Counter counter;
  for (auto unused : state) counter.Increment();
}
BENCHMARK(BM_PrometheusCounter)->Threads(1)->Threads(2);

void BM_Gauge(benchmark::State& state) {
  static EventMetrics metrics;
  static const EventMetrics::Gauge added = metrics.AddGauge("g", "");
  EventMetrics::Gauge gauge = added;
  int64_t change = 1;
  for (auto unused : state) gauge.Change(change = -change);
}
BENCHMARK(BM_Gauge)->Threads(1)->Threads(2);

void BM_PrometheusGauge(benchmark::State& state) {
  static prometheus::Gauge gauge;
  double change = 1;
  for (auto unused : state) gauge.Increment(change = -change);
}
BENCHMARK(BM_PrometheusGauge)->Threads(1)->Threads(2);

void BM_Histogram(benchmark::State& state) {
  static EventMetrics metrics;
  static const EventMetrics::Histogram added = metrics.AddHistogram("h", "", kBounds);
  EventMetrics::Histogram histogram = added;
  uint64_t i = 0;
  for (auto unused : state) histogram.Observe(Value(++i));
}
BENCHMARK(BM_Histogram)->Threads(1)->Threads(2);

void BM_PrometheusHistogram(benchmark::State& state) {
  static prometheus::Histogram histogram(kBounds);
  uint64_t i = 0;
  for (auto unused : state) histogram.Observe(Value(++i));
}
BENCHMARK(BM_PrometheusHistogram)->Threads(1)->Threads(2);

Metrics& AllMetrics() {
  static auto* const metrics = new Metrics("");
  return *metrics;
}

// As streams see it: a response that waits and is taken.
void BM_OnUnsent(benchmark::State& state) {
  RpcObserver& observer = AllMetrics();
  int64_t responses = 1;
  for (auto unused : state) {
    observer.OnUnsent(Method::kLoad, responses, 1000 * responses);
    responses = -responses;
  }
}
BENCHMARK(BM_OnUnsent)->Threads(1)->Threads(2);

// A batch of nodes, edges and graphs.
void BM_OnBatch(benchmark::State& state) {
  const auto stream = AllMetrics().ForStream(SizeSchema::NodesAndEdges(), {});
  Batch batch;
  batch.real_rows = {5000, 11000, 200};
  batch.rows = {5120, 11264, 256};
  for (auto unused : state) stream->OnBatch(batch, {5120, 11264, 256});
}
BENCHMARK(BM_OnBatch)->Threads(1)->Threads(2);

void BM_Exposition(benchmark::State& state) {
  for (auto unused : state) benchmark::DoNotOptimize(AllMetrics().Exposition());
}
BENCHMARK(BM_Exposition)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace packhouse::metrics
