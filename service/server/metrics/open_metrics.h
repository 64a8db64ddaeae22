// Metrics in the text format of OpenMetrics 1.0, which has exemplars.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_OPEN_METRICS_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_OPEN_METRICS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "prometheus/client_metric.h"
#include "prometheus/metric_family.h"
#include "service/server/metrics/call_exemplars.h"

namespace packhouse::metrics {

// The exemplars of a histogram's buckets, in their order; or none at all.
using ExemplarsOf = std::function<std::vector<std::optional<Exemplar>>(
    const std::string& family, const prometheus::ClientMetric& metric)>;

// The same samples as prometheus::TextSerializer gives, under the same names. A family of counters
// must have a name that ends in "_total".
std::string OpenMetricsText(const std::vector<prometheus::MetricFamily>& families,
                            const ExemplarsOf& exemplars_of);

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_OPEN_METRICS_H_
