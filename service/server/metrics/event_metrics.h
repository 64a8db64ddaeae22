// Counters, gauges and histograms of events that happen often, as Prometheus sees them.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_EVENT_METRICS_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_EVENT_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "prometheus/collectable.h"
#include "prometheus/labels.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"
#include "service/server/metrics/thread_cells.h"

namespace packhouse::metrics {

// Each metric is added once. The returned handle counts events; it is cheap to copy, and valid as
// long as the EventMetrics lives. An event takes a few ns and never waits for other threads;
// Collect() does the adding up. Thread-safe.
class EventMetrics final : public prometheus::Collectable {
 public:
  class Counter {
   public:
    void Increment(uint64_t amount = 1) { cells_->Add(cell_, amount); }

   private:
    friend class EventMetrics;
    Counter(ThreadCells* cells, size_t cell) : cells_(cells), cell_(cell) {}
    ThreadCells* cells_;
    size_t cell_;
  };

  // The sum of all changes. Collect() may come between two changes that belong together; a sum that
  // is then negative counts as 0.
  class Gauge {
   public:
    void Change(int64_t amount) { cells_->Add(cell_, static_cast<uint64_t>(amount)); }

   private:
    friend class EventMetrics;
    Gauge(ThreadCells* cells, size_t cell) : cells_(cells), cell_(cell) {}
    ThreadCells* cells_;
    size_t cell_;
  };

  // Bucket i counts values up to `bounds[i]` (ascending); the last bucket counts all larger values.
  class Histogram {
   public:
    void Observe(double value) {
      // Comparing with all bounds is quicker than branching on where to stop.
      size_t bucket = 0;
      for (const double bound : bounds_) bucket += bound < value ? 1 : 0;
      cells_->Add(cell_ + bucket, 1);
      cells_->AddReal(cell_ + bounds_.size() + 1, value);
    }

   private:
    friend class EventMetrics;
    Histogram(ThreadCells* cells, size_t cell, absl::Span<const double> bounds)
        : cells_(cells), cell_(cell), bounds_(bounds) {}
    ThreadCells* cells_;
    size_t cell_;  // The cell of the first bucket; the sum of values comes after the last bucket.
    absl::Span<const double> bounds_;
  };

  // Metrics with the same name must be of the same kind and have different labels; the help of the
  // first is used. `bounds` must outlive the EventMetrics; at most ThreadCells::kNumCells - 2 of
  // them.
  Counter AddCounter(const std::string& name, const std::string& help,
                     const prometheus::Labels& labels = {});
  Gauge AddGauge(const std::string& name, const std::string& help,
                 const prometheus::Labels& labels = {});
  Histogram AddHistogram(const std::string& name, const std::string& help,
                         absl::Span<const double> bounds, const prometheus::Labels& labels = {});

  // Families in the order in which their names were added.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Metric {
    prometheus::Labels labels;
    ThreadCells* cells;
    size_t cell;
    absl::Span<const double> bounds;  // Of a histogram.
  };
  struct Family {
    std::string name;
    std::string help;
    prometheus::MetricType type;
    std::vector<Metric> metrics;
  };

  Metric Add(const std::string& name, const std::string& help, prometheus::MetricType type,
             size_t num_cells, Metric metric);

  mutable absl::Mutex mutex_;
  std::vector<Family> families_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ThreadCells>> cells_ ABSL_GUARDED_BY(mutex_);
  size_t num_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the last of cells_.
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_EVENT_METRICS_H_
