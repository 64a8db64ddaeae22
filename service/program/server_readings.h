// What metrics and pages show of the running server.
#ifndef PACKHOUSE_SERVICE_PROGRAM_SERVER_READINGS_H_
#define PACKHOUSE_SERVICE_PROGRAM_SERVER_READINGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "service/access/security/security_files.h"
#include "service/access/worker_pool.h"
#include "service/base/clock.h"
#include "service/base/recent_value.h"
#include "service/program/membership.h"
#include "service/program/served_stores.h"
#include "service/server/calls/readiness.h"
#include "service/server/listen/server.h"
#include "service/server/metrics/metrics.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

class Wing;

// Thread-safe. The disk is read on a thread of its own; who asks waits for it for a moment, and
// then has what was read last.
class ServerReadings {
 public:
  // The pointees must outlive this; `membership` may be null.
  struct Sources {
    rpc::Server* server = nullptr;
    const std::vector<std::shared_ptr<Wing>>* wings = nullptr;
    const ServedStores* stores = nullptr;
    const security::SecurityFiles* files = nullptr;
    const Membership* membership = nullptr;
    const Readiness* readiness = nullptr;
  };
  ServerReadings(const Sources& sources, Clock* clock);

  // `metrics` reads from now on what it shows of the server and its stores. This must outlive it.
  void ShowIn(metrics::Metrics& metrics);

  // Of the source graphs of the data folder; nullopt if there are none. Does not wait.
  std::optional<metrics::SourceGraphReading> source_graphs() const;
  // Of the disk that the data, or their cache, lie on; nullopt if it cannot be read, or if there is
  // no folder. Waits for a moment.
  std::optional<uint64_t> recent_free_bytes() { return recent_free_bytes_.Get(); }

 private:
  metrics::ServerReading ReadServer() const;

  const Sources sources_;
  WorkerPool reader_;
  RecentValue<metrics::StoreReading> recent_store_;
  RecentValue<std::optional<uint64_t>> recent_free_bytes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_SERVER_READINGS_H_
