// Families that a collector makes anew at each scrape.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_FAMILIES_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_FAMILIES_H_

#include <string>
#include <utility>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "prometheus/metric_type.h"

namespace packhouse::metrics {

inline prometheus::MetricFamily FamilyOf(std::string name, std::string help,
                                         prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

// One counter or gauge without labels.
inline prometheus::MetricFamily CounterFamily(std::string name, std::string help, double value) {
  auto family = FamilyOf(std::move(name), std::move(help), prometheus::MetricType::Counter);
  family.metric.emplace_back().counter.value = value;
  return family;
}
inline prometheus::MetricFamily GaugeFamily(std::string name, std::string help, double value) {
  auto family = FamilyOf(std::move(name), std::move(help), prometheus::MetricType::Gauge);
  family.metric.emplace_back().gauge.value = value;
  return family;
}

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_FAMILIES_H_
