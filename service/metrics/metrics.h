// Implements the rooms' observers with prometheus-cpp.
//
// Every family, and every label set that is known beforehand, is registered once; nothing is looked
// up per batch or per call. The labels of a stream's components are looked up when it opens.
#ifndef PACKHOUSE_SERVICE_METRICS_METRICS_H_
#define PACKHOUSE_SERVICE_METRICS_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "service/datasets/commit_observer.h"
#include "service/delivery/pack_observer.h"
#include "service/metrics/delivery_collector.h"
#include "service/rpc/rpc_observer.h"

namespace packhouse::metrics {

// Component names come from clients: after so many different ones, others share the label "other".
inline constexpr size_t kMaxComponentLabels = 64;

// Thread-safe. Outlives the streams and the stores that it observes.
class Metrics final : public PackObserverFactory, public rpc::RpcObserver {
 public:
  explicit Metrics(const std::string& version);
  ~Metrics() override;

  // The page in Prometheus' text format.
  std::string Exposition() const;

  // The observer of a store, whose name becomes the label `store`; each name once. `max_bytes` is
  // what it may take.
  CommitObserver* AddStore(const std::string& name, uint64_t max_bytes);

  // Where a page gets the numbers of delivery from; called by each Exposition(), at any time, from
  // now until the Metrics go or another is set.
  void SetDelivery(DeliveryCollector::Snapshot snapshot);

  std::unique_ptr<PackObserver> ForStream(const SizeSchema& schema) override;

  void OnStarted(rpc::Method method) override;
  void OnFinished(rpc::Method method, absl::StatusCode code, absl::Duration elapsed) override;
  void OnPlanned(absl::Duration elapsed, double gap) override;
  void OnUnsent(rpc::Method method, int64_t responses, int64_t bytes) override;

 private:
  struct ComponentMetrics {
    prometheus::Counter* real_rows;
    prometheus::Counter* padding_rows;
    prometheus::Histogram* efficiency;
  };
  class StreamObserver;
  class StoreObserver;

  static constexpr size_t kNumMethods = rpc::kMethodNames.size();
  static constexpr size_t kNumCodes = 17;

  ComponentMetrics ForComponent(absl::string_view name);

  prometheus::Registry registry_;
  prometheus::Counter& batches_;
  prometheus::Counter& graphs_;
  prometheus::Counter& rejected_too_large_;
  prometheus::Gauge& pending_graphs_;
  prometheus::Gauge& pending_bytes_;
  prometheus::Histogram& plan_duration_;
  prometheus::Histogram& plan_gap_;
  // Null for unary methods.
  std::array<prometheus::Gauge*, kNumMethods> open_streams_;
  std::array<prometheus::Gauge*, kNumMethods> unsent_responses_;
  std::array<prometheus::Gauge*, kNumMethods> unsent_bytes_;
  std::array<std::array<prometheus::Counter*, kNumCodes>, kNumMethods> rpcs_;
  std::array<prometheus::Histogram*, kNumMethods> rpc_duration_;

  prometheus::Family<prometheus::Counter>& real_rows_;
  prometheus::Family<prometheus::Counter>& padding_rows_;
  prometheus::Family<prometheus::Histogram>& efficiency_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, ComponentMetrics> components_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<StoreObserver>> stores_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const DeliveryCollector> delivery_ ABSL_GUARDED_BY(mutex_);  // May be null.
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_METRICS_METRICS_H_
