#include "service/server/metrics/event_metrics.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "prometheus/client_metric.h"

namespace packhouse::metrics {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

EventMetrics::Metric EventMetrics::Add(const std::string& name, const std::string& help,
                                       MetricType type, size_t num_cells, Metric metric) {
  absl::MutexLock lock(&mutex_);
  if (cells_.empty() || num_taken_ + num_cells > ThreadCells::kNumCells) {
    cells_.push_back(std::make_unique<ThreadCells>());
    num_taken_ = 0;
  }
  metric.cells = cells_.back().get();
  metric.cell = num_taken_;
  num_taken_ += num_cells;
  auto family = std::find_if(families_.begin(), families_.end(),
                             [&](const Family& other) { return other.name == name; });
  if (family == families_.end()) {
    family = families_.insert(families_.end(), Family{name, help, type, {}});
  }
  family->metrics.push_back(metric);
  return metric;
}

EventMetrics::Counter EventMetrics::AddCounter(const std::string& name, const std::string& help,
                                               const prometheus::Labels& labels) {
  const Metric added = Add(name, help, MetricType::Counter, 1, {labels, nullptr, 0, {}});
  return {added.cells, added.cell};
}

EventMetrics::Gauge EventMetrics::AddGauge(const std::string& name, const std::string& help,
                                           const prometheus::Labels& labels) {
  const Metric added = Add(name, help, MetricType::Gauge, 1, {labels, nullptr, 0, {}});
  return {added.cells, added.cell};
}

EventMetrics::Histogram EventMetrics::AddHistogram(const std::string& name, const std::string& help,
                                                   absl::Span<const double> bounds,
                                                   const prometheus::Labels& labels) {
  // One bucket more than bounds, and the sum.
  const Metric added =
      Add(name, help, MetricType::Histogram, bounds.size() + 2, {labels, nullptr, 0, bounds});
  return {added.cells, added.cell, bounds};
}

std::vector<MetricFamily> EventMetrics::Collect() const {
  absl::MutexLock lock(&mutex_);
  std::vector<MetricFamily> families;
  for (const Family& family : families_) {
    MetricFamily& collected = families.emplace_back();
    collected.name = family.name;
    collected.help = family.help;
    collected.type = family.type;
    for (const Metric& metric : family.metrics) {
      ClientMetric& values = collected.metric.emplace_back();
      for (const auto& [name, value] : metric.labels) values.label.push_back({name, value});
      if (family.type != MetricType::Histogram) {
        const uint64_t sum = metric.cells->Sum(metric.cell);
        values.counter.value = static_cast<double>(sum);
        values.gauge.value = static_cast<double>(std::max<int64_t>(0, static_cast<int64_t>(sum)));
        continue;
      }
      const size_t num_bounds = metric.bounds.size();
      uint64_t count = 0;
      for (size_t i = 0; i <= num_bounds; ++i) {
        count += metric.cells->Sum(metric.cell + i);
        ClientMetric::Bucket& bucket = values.histogram.bucket.emplace_back();
        bucket.cumulative_count = count;
        bucket.upper_bound =
            i == num_bounds ? std::numeric_limits<double>::infinity() : metric.bounds[i];
      }
      values.histogram.sample_count = count;
      values.histogram.sample_sum = metric.cells->SumReal(metric.cell + num_bounds + 1);
    }
  }
  return families;
}

}  // namespace packhouse::metrics
