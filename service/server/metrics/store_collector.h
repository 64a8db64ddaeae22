// The folder for data: its disk, and the data sets in it, read when Prometheus scrapes.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_STORE_COLLECTOR_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_STORE_COLLECTOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace packhouse::metrics {

// Clients name data sets. This many, those with the most bytes, have a label of their own; the
// others of a namespace share the label "other".
inline constexpr size_t kMaxDatasetLabels = 100;
// Of the namespaces that data sets are in; further ones by name share the label "other".
inline constexpr size_t kMaxNamespaceLabels = 100;

struct StoreReading {
  struct Dataset {
    std::string name;
    bool is_sealed = false;
    uint64_t num_graphs = 0;
    uint64_t num_bytes = 0;
  };
  struct Disk {
    uint64_t free_bytes = 0;  // For those without special rights.
    uint64_t all_bytes = 0;
  };
  std::optional<Disk> disk;  // Unset if it cannot be read.
  std::vector<Dataset> datasets;
};

// Thread-safe if `read` is.
class StoreCollector final : public prometheus::Collectable {
 public:
  using Read = std::function<StoreReading()>;

  explicit StoreCollector(Read read) : read_(std::move(read)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Read read_;
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_STORE_COLLECTOR_H_
