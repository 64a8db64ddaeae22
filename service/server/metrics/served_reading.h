// The metrics that the page shows, read from the families that Prometheus gets.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_SERVED_READING_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_SERVED_READING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace packhouse::metrics {

struct ServedReading {
  struct Rows {
    std::string component;
    uint64_t real = 0;
    uint64_t padding = 0;
  };
  struct Streams {
    std::string method;
    uint64_t open = 0;
    uint64_t unsent_responses = 0;
  };
  struct Store {
    std::string name;
    uint64_t num_bytes = 0;
    uint64_t max_bytes = 0;
  };

  uint64_t batches = 0;
  uint64_t graphs = 0;
  uint64_t batch_bytes = 0;
  uint64_t pending_graphs = 0;
  // In the order of the families.
  std::vector<Rows> components;
  std::vector<Streams> streams;
  std::vector<Store> stores;
};

// Sums over all labels but the one that tells its rows apart. What is missing is 0.
ServedReading ServedFrom(const std::vector<prometheus::MetricFamily>& families);

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_SERVED_READING_H_
