// What streams pack: by namespace, by data set and by component.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_PACKING_METRICS_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_PACKING_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "prometheus/labels.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/metrics/event_metrics.h"

namespace packhouse::metrics {

// Clients choose the names of components, namespaces and data sets. This many different components
// have a label of their own; further ones share the label "other". So do namespaces and data sets
// beyond the first kMaxNamespaceLabels and kMaxDatasetLabels (store_collector.h) that are packed.
inline constexpr size_t kMaxComponentLabels = 64;
// Of components in data sets; further ones have "other" as namespace, data set and component.
inline constexpr size_t kMaxRowLabels = 512;

// A stream's labels are looked up when it opens. Thread-safe; outlives its streams.
class PackingMetrics {
 public:
  // `events` must outlive this.
  explicit PackingMetrics(EventMetrics* events);

  std::unique_ptr<PackObserver> ForStream(const SizeSchema& schema, const PackedFor& packed_for);

 private:
  // Of a component.
  struct RowMetrics {
    EventMetrics::Counter real_rows;
    EventMetrics::Counter padding_rows;
    EventMetrics::Histogram efficiency;
  };
  // Of all streams of a namespace and, if they have one, of a data set.
  struct SourceMetrics {
    prometheus::Labels labels;
    EventMetrics::Counter batches;
    EventMetrics::Counter graphs;
    EventMetrics::Counter batch_bytes;
    EventMetrics::Counter rejected_too_large;
    EventMetrics::Counter drift_loses;
    EventMetrics::Counter drift_harmless;
    EventMetrics::Counter drift_not_judged;
    EventMetrics::Gauge drift_streams;
    EventMetrics::Gauge pending_graphs;
    EventMetrics::Gauge pending_bytes;
    std::map<std::string, RowMetrics, std::less<>> components;
  };
  class StreamObserver;

  SourceMetrics& SourceOf(const std::string& where, const std::string& dataset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RowMetrics RowsOf(SourceMetrics& source, absl::string_view component)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RowMetrics AddRows(prometheus::Labels labels);

  EventMetrics* const events_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> namespaces_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> datasets_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> components_ ABSL_GUARDED_BY(mutex_);
  size_t num_rows_ ABSL_GUARDED_BY(mutex_) = 0;
  // By namespace and data set, as they are in labels. Entries stay where they are.
  std::map<std::pair<std::string, std::string>, SourceMetrics> sources_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_PACKING_METRICS_H_
