// The memory that the server holds, read when Prometheus scrapes.
#ifndef PACKHOUSE_SERVICE_SERVER_METRICS_SERVER_COLLECTOR_H_
#define PACKHOUSE_SERVICE_SERVER_METRICS_SERVER_COLLECTOR_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "prometheus/collectable.h"
#include "prometheus/metric_family.h"
#include "service/engine/feedback/feedback_reading.h"

namespace packhouse::metrics {

// A file that is read again while the server runs, such as its certificates.
struct FileReading {
  std::string name;
  bool is_broken = false;
  uint64_t num_reloads = 0;
  uint64_t num_failures = 0;
  absl::Time begins = absl::InfinitePast();
  absl::Time expires = absl::InfiniteFuture();
};

// The store of source graphs.
struct SourceGraphReading {
  uint64_t num_graphs = 0;
  uint64_t num_bytes = 0;
  uint64_t max_bytes = 0;
  uint64_t appended_nodes = 0;
  uint64_t appended_edges = 0;
};

// This server as one of several that share jobs.
struct ClusterReading {
  uint64_t num_members = 0;
  bool has_lease = false;
  uint64_t num_jobs = 0;
  uint64_t num_opened = 0;
  uint64_t num_taken_over = 0;
  // Of the jobs' ledgers.
  uint64_t num_commits = 0;
  uint64_t num_failed_commits = 0;
  absl::Duration commit_time;
};

// The data sets that several servers share: the cache of objects here, requests to S3, the sweep.
struct SharedDatasetsReading {
  uint64_t cached_bytes = 0;
  uint64_t in_use_bytes = 0;
  uint64_t max_cached_bytes = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evictions = 0;
  uint64_t num_retries = 0;
  uint64_t swept_objects = 0;
  uint64_t swept_bytes = 0;
  uint64_t orphaned_objects = 0;
  uint64_t failed_sweeps = 0;
};

// Memory that clients of this host share (server/lanes/lane.h).
struct LaneReading {
  // Streams that were offered a lane: those that opened it, and the others.
  uint64_t num_open = 0;
  uint64_t num_not_open = 0;
  uint64_t num_slots = 0;
  uint64_t num_batches = 0;
  // Streams that asked for one in vain; batches that went over gRPC.
  uint64_t num_refused = 0;
  uint64_t num_too_large = 0;
  uint64_t num_without_slot = 0;
  // Of graphs that came to the server.
  uint64_t num_chunks = 0;
};

// What a namespace uses of a quota.
struct QuotaUseReading {
  std::string where;
  std::string quota;
  double used = 0;
  double limit = 0;
};

// One of what may keep the server from work (server/calls/readiness.h).
struct ReadyReading {
  std::string reason;
  bool is_ready = true;
};

struct ServerReading {
  // Held bytes of each share of --memory-budget (base/memory_shares.h), and the bound of each.
  // gRPC does not report the bytes that it has received and not handed over.
  struct Share {
    uint64_t held_bytes = 0;
    uint64_t most_bytes = 0;
  };
  Share pending;
  Share unsent;
  Share working;
  std::vector<ReadyReading> ready = {};
  bool is_draining = false;
  uint64_t num_connections = 0;
  uint64_t max_connections = 0;
  // base/out_of_memory.h.
  uint64_t num_out_of_memory = 0;
  // stores/datasets/retained_datasets.h.
  uint64_t num_expired_datasets = 0;
  // stores/limits/retention.h.
  uint64_t num_expired_source_graphs = 0;
  uint64_t num_expired_histograms = 0;
  uint64_t num_expired_models = 0;
  std::vector<FileReading> files;
  // Unset without a folder for data.
  std::optional<SourceGraphReading> source_graphs = std::nullopt;
  // Unset for a server that is alone.
  std::optional<ClusterReading> cluster = std::nullopt;
  // Unset unless data sets are in S3.
  std::optional<SharedDatasetsReading> shared_datasets = std::nullopt;
  // Unset without --lane.
  std::optional<LaneReading> lanes = std::nullopt;
  // Of namespaces that the policy names: its author bounds their number.
  std::vector<QuotaUseReading> quotas = {};
  // At most --max-measured-models.
  std::vector<FeedbackReading> feedback = {};
};

// Thread-safe if `read` is.
class ServerCollector final : public prometheus::Collectable {
 public:
  using Read = std::function<ServerReading()>;

  explicit ServerCollector(Read read) : read_(std::move(read)) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const Read read_;
};

}  // namespace packhouse::metrics

#endif  // PACKHOUSE_SERVICE_SERVER_METRICS_SERVER_COLLECTOR_H_
