// Implements the rooms' observers with prometheus-cpp.
//
// Every family, and every label set that is known beforehand, is registered once; nothing is looked
// up per batch or per call. The labels of a stream are looked up when it opens. Events
// of each call, message or batch are counted by each thread on its own (EventMetrics). Plans and
// commits are rare, and prometheus-cpp counts them.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_METRICS_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/engine/epochs/sampling_observer.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/metrics/call_exemplars.h"
#include "service/server/metrics/delivery_collector.h"
#include "service/server/metrics/event_metrics.h"
#include "service/server/metrics/namespace_calls.h"
#include "service/server/metrics/packing_metrics.h"
#include "service/server/metrics/process_collector.h"
#include "service/server/metrics/served_reading.h"
#include "service/server/metrics/server_collector.h"
#include "service/server/metrics/store_collector.h"
#include "service/stores/datasets/commit_observer.h"

namespace packhouse::metrics {

// Thread-safe. Outlives the streams and the stores that it observes.
class Metrics final : public PackObserverFactory, public RpcObserver, public SamplingObserver {
 public:
  // `commit`: of the sources that the server was built from.
  explicit Metrics(const std::string& version, const std::string& commit = "unknown");
  ~Metrics() override;

  // The page in Prometheus' text format.
  std::string Exposition() const;
  // The same in the format of OpenMetrics, with the traces of some calls (call_exemplars.h).
  std::string OpenMetrics() const;

  // What the page shows of the rooms' metrics.
  ServedReading Served() const;

  // The observer of a store. The store's name becomes the label `store`; each name may be used
  // once. `max_bytes`: the most bytes that the store may take.
  CommitObserver* AddStore(const std::string& name, uint64_t max_bytes);

  // Sets the source of delivery's numbers. Each Exposition() calls it, at any time, until the
  // Metrics are destroyed or another source is set.
  void SetDelivery(DeliveryCollector::Snapshot snapshot);
  // The same of what the server holds, and of what lies in its folder for data.
  void SetServer(ServerCollector::Read read);
  void SetStores(StoreCollector::Read read);

  // Counts calls by namespace; give it to the server. Tells `next` (may be null) of them too, which
  // must outlive the Metrics. May be called once.
  CallJournal* CountCalls(CallJournal* next) {
    calls_ = std::make_unique<NamespaceCalls>(&events_, &exemplars_, next);
    return calls_.get();
  }

  std::unique_ptr<PackObserver> ForStream(const SizeSchema& schema,
                                          const PackedFor& packed_for) override {
    return packing_.ForStream(schema, packed_for);
  }

  void OnStarted(Method method) override;
  void OnFinished(Method method, absl::StatusCode code, absl::Duration elapsed) override;
  void OnPlanned(absl::Duration elapsed, double gap) override;
  void OnMalformedExamples(Method method, uint64_t skipped, uint64_t refused) override;
  void OnUnsent(Method method, int64_t responses, int64_t bytes) override;

  void OnDrawn(uint64_t seeds, uint64_t nodes, uint64_t edges, uint32_t level) override;

 private:
  // The metrics of a method whose calls are streams.
  struct StreamMetrics {
    EventMetrics::Gauge open;
    EventMetrics::Gauge unsent_responses;
    EventMetrics::Gauge unsent_bytes;
  };
  // The malformed tf.Examples that came by a method.
  struct ExampleMetrics {
    EventMetrics::Counter skipped;
    EventMetrics::Counter refused;
  };
  class StoreObserver;

  static constexpr size_t kNumMethods = kMethodNames.size();
  static constexpr size_t kNumCodes = 17;

  std::vector<prometheus::MetricFamily> Collect() const;

  const ProcessCollector process_;
  EventMetrics events_;
  CallExemplars exemplars_;
  std::unique_ptr<NamespaceCalls> calls_;
  prometheus::Registry registry_;
  PackingMetrics packing_;
  EventMetrics::Counter sampled_seeds_;
  EventMetrics::Counter sampled_nodes_;
  EventMetrics::Counter sampled_edges_;
  EventMetrics::Counter drawn_smaller_;
  prometheus::Histogram& plan_duration_;
  prometheus::Histogram& plan_gap_;
  // Constant after construction; nullopt for unary methods.
  std::array<std::optional<StreamMetrics>, kNumMethods> streams_;
  // As streams_; nullopt for methods that take no examples.
  std::array<std::optional<ExampleMetrics>, kNumMethods> examples_;
  std::vector<std::vector<EventMetrics::Counter>> rpcs_;  // By method and code.
  std::vector<EventMetrics::Histogram> rpc_duration_;     // By method.

  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<StoreObserver>> stores_ ABSL_GUARDED_BY(mutex_);
  // May be null.
  std::shared_ptr<const DeliveryCollector> delivery_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ServerCollector> server_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const StoreCollector> collected_stores_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_METRICS_H_
