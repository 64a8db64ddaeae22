// The process as the kernel sees it, under the names that Prometheus' own client libraries use.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_PROCESS_COLLECTOR_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_PROCESS_COLLECTOR_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"

namespace packhouse::metrics {

// What cannot be read is 0.
struct ProcessReading {
  absl::Duration cpu_time;
  uint64_t resident_bytes = 0;
  // Of these, what the process has allocated itself: no pages of files, which the kernel can drop.
  uint64_t anonymous_bytes = 0;
  uint64_t virtual_bytes = 0;
  uint64_t num_threads = 0;
  uint64_t num_files = 0;
  uint64_t max_files = 0;
};

// This process, now. O(open files).
ProcessReading ReadThisProcess();

// Thread-safe. Counts the process's age from when it is made.
class ProcessCollector final : public prometheus::Collectable {
 public:
  ProcessCollector();

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const absl::Time started_;
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_PROCESS_COLLECTOR_H_
