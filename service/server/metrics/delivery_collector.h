// Delivery's totals and the progress of epochs, read when Prometheus scrapes.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_DELIVERY_COLLECTOR_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_DELIVERY_COLLECTOR_H_

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "service/engine/jobs/delivery_snapshot.h"

namespace packhouse::metrics {

// Clients name jobs and data sets. If more than this many pairs of them are loaded at the same
// time, the last ones by name share the label "other". The label is not `job`, since Prometheus
// uses that for the server.
inline constexpr size_t kMaxJobLabels = 100;

// Thread-safe if `snapshot` is.
class DeliveryCollector final : public prometheus::Collectable {
 public:
  using Snapshot = std::function<DeliverySnapshot()>;

  explicit DeliveryCollector(Snapshot snapshot) : snapshot_(std::move(snapshot)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Snapshot snapshot_;
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_DELIVERY_COLLECTOR_H_
