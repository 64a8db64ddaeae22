// Implements the rooms' observers with prometheus-cpp.
//
// Every family, and every label set that is known beforehand, is registered once; nothing is looked
// up per batch or per call. The labels of a stream's components are looked up when it opens.
#ifndef PACKHOUSE_SERVICE_METRICS_METRICS_H_
#define PACKHOUSE_SERVICE_METRICS_METRICS_H_

#include <array>
#include <chrono>
#include <cstddef>
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
#include "service/rpc/rpc_observer.h"

namespace packhouse::metrics {

// Component names come from clients: after so many different ones, others share the label "other".
inline constexpr size_t kMaxComponentLabels = 64;

// Thread-safe, but for what a store says of its commits: that comes from one thread at a time.
// Outlives the streams and the store that it observes.
class Metrics final : public PackObserverFactory, public rpc::RpcObserver, public CommitObserver {
 public:
  explicit Metrics(const std::string& version);

  // The page in Prometheus' text format.
  std::string Exposition() const;

  std::unique_ptr<PackObserver> ForStream(const SizeSchema& schema) override;

  void OnStarted(rpc::Method method) override;
  void OnFinished(rpc::Method method, absl::StatusCode code, absl::Duration elapsed) override;
  void OnPlanned(absl::Duration elapsed, double gap) override;

  void OnCommitBegin() override;
  void OnCommitEnd(const CommitSummary& summary) override;
  void OnStoreBytes(uint64_t num_bytes) override;

 private:
  struct ComponentMetrics {
    prometheus::Counter* real_rows;
    prometheus::Counter* padding_rows;
    prometheus::Histogram* efficiency;
  };
  class StreamObserver;

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
  prometheus::Counter& durable_commits_;
  prometheus::Counter& failed_commits_;
  prometheus::Histogram& commit_duration_;
  prometheus::Histogram& commit_changes_;
  prometheus::Counter& committed_bytes_;
  prometheus::Gauge& store_bytes_;
  std::array<prometheus::Gauge*, kNumMethods> open_streams_;  // Null for unary methods.
  std::array<std::array<prometheus::Counter*, kNumCodes>, kNumMethods> rpcs_;
  std::array<prometheus::Histogram*, kNumMethods> rpc_duration_;

  // Between OnCommitBegin() and OnCommitEnd().
  std::chrono::steady_clock::time_point commit_started_;

  prometheus::Family<prometheus::Counter>& real_rows_;
  prometheus::Family<prometheus::Counter>& padding_rows_;
  prometheus::Family<prometheus::Histogram>& efficiency_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, ComponentMetrics> components_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_METRICS_METRICS_H_
