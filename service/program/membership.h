// This server's place among those that share the jobs, as a wing keeps it.
#ifndef PACKHOUSE_SERVICE_PROGRAM_MEMBERSHIP_H_
#define PACKHOUSE_SERVICE_PROGRAM_MEMBERSHIP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/access/security/reloader.h"
#include "service/base/clock.h"
#include "service/base/event_log.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/server/metrics/server_collector.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/keys/key_value_store.h"
#include "service/stores/keys/uses.h"
#include "service/stores/limits/retention.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse {

struct Options;
class SharedCompanions;
class SourceGraphStore;

struct MembershipOptions {
  // What all servers have in common. Empty: this server is alone.
  std::string ledger;
  // HOST:PORT at which clients reach this server.
  std::string advertise;
  absl::Duration lease = absl::Seconds(10);
  // Files in PEM, read once. Empty: plain text, no certificate of this server's.
  std::string roots_file;
  std::string certificate_file;
  std::string key_file;
  // "NAME:PASSWORD" of a user of what keeps it. Empty: none.
  std::string user;
};

// ClusterMember::settings. A server with another value of the first kind is refused; of the second
// kind, it is named in the log.
struct MemberSettings {
  std::map<std::string, std::string> must_be_equal;
  std::map<std::string, std::string> should_be_equal;
};

// Data sets and source graphs that servers share. Thread-safe.
class SharedStores {
 public:
  virtual ~SharedStores() = default;
  virtual DatasetStore* datasets() = 0;
  virtual SourceGraphStore* source_graphs() = 0;
  // Of the source graphs.
  virtual SharedCompanions* companions() = 0;
  // The folder of this machine in which copies lie.
  virtual const std::string& disk() const = 0;
  // When they were last used by any server, for who deletes those that nobody uses. Unset if they
  // are kept for ever; this server notes no uses then.
  virtual absl::StatusOr<MakeUses> DatasetUses(const Retention& retention) = 0;
  virtual absl::StatusOr<MakeUses> SourceGraphUses(const Retention& retention) = 0;
  // To be reloaded now and then, under this name.
  virtual security::Reloadable* credentials() = 0;
  // Empty while they are. What is away only now keeps nobody from what is in the cache.
  virtual std::string why_not_ready() const = 0;
  virtual metrics::SharedDatasetsReading Read() const = 0;
  // Deletes, on a thread until the process ends, what no store has any more.
  virtual void StartSweeping(EventLog& log) = 0;
};

// Thread-safe.
class Membership {
 public:
  virtual ~Membership() = default;

  virtual JobLogs* logs() const = 0;
  virtual std::unique_ptr<HistogramStore> ShareHistograms(HistogramStore::Bounds bounds,
                                                          MemoryBudget* memory) = 0;
  // Deletes those that no server uses. One thread at a time, as long as they are there.
  virtual absl::Status SweepHistograms(std::vector<Expired>& expired) = 0;
  virtual uint64_t num_expired_histograms() const = 0;
  // Of all servers; lives as long as this.
  virtual KeyStore* keys() const = 0;
  // This server's name, another one each time that it starts.
  virtual const std::string& replica() const = 0;
  // Of options.store. Errors name the flag.
  virtual absl::StatusOr<std::unique_ptr<SharedStores>> OpenStores(const Options& options,
                                                                   Clock& clock) const = 0;

  // Keeps the place from now on, on a thread, and calls `sweep` at each turn on another, which may
  // wait for long. Calls `is_over` once, on the first thread, if the cluster has begun another
  // life, or another server has taken this one's address: this server can do nothing more then. May
  // be called once.
  virtual void Start(std::function<void()> sweep,
                     std::function<void(const absl::Status& why)> is_over) = 0;
  // Gives back all jobs, so that others may take them at once.
  virtual void Leave() = 0;

  // Why this server can own nothing now; empty if it can.
  virtual std::string why_not_ready() const = 0;
  // Why nothing more can be stored of what servers share; empty if it can.
  virtual std::string why_full() const = 0;
  // Members, lease and commits; not what the server itself knows of its jobs.
  virtual metrics::ClusterReading Read() const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_MEMBERSHIP_H_
