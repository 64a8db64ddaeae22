// The jobs that a server has: one loader for all, or where servers share the jobs, a loader for
// each that is here.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVED_JOBS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVED_JOBS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/jobs/job_census.h"
#include "service/engine/jobs/loader.h"
#include "service/engine/jobs/owned_jobs.h"
#include "service/server/services/server_options.h"
#include "service/server/services/server_pools.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/logs/record_log.h"

namespace packhouse::rpc {

class ServedJobs {
 public:
  // Reads the ledger, if there is one. Without data sets, or without a place for the jobs, there
  // are none, and no loader. The pointees must outlive the result. DATA_LOSS if the ledger cannot
  // be read.
  static absl::StatusOr<std::unique_ptr<ServedJobs>> Open(const ServerOptions& options,
                                                          Clock* clock, DatasetStore* datasets,
                                                          RecordLog* ledger, MemoryBudget* working);

  // Lets loaders work on the pools, which must outlive this. To be called once, before there are
  // calls.
  void StartOn(ServerPools& pools, const ServerOptions& options);

  EpochCatalog* catalog() const { return catalog_.get(); }  // Null without data sets.
  // Null without data sets. Where servers share the jobs, it has no jobs, but evaluations.
  Loader* loader() const { return loader_.get(); }
  // Null: loader() has all jobs.
  OwnedJobs* owned() const { return owned_.get(); }

  // What is to be done now and then, by one thread, where servers share the jobs:
  // OwnedJobs::Sweep() and JobCensus::Turn(), whose error is returned. Waits for the store.
  absl::Status Sweep();
  // Epochs by namespace, of all servers.
  std::map<std::string, uint64_t> EpochsByNamespace() const;

  // The loaders of all jobs that are here, kept by the results.
  std::vector<std::shared_ptr<const Loader>> Loaders() const;

  // Of all of them together.
  DeliverySnapshot Snapshot() const;
  std::vector<SessionSummary> Sessions() const;
  // Empty if the job is not here.
  std::vector<EpochWatch> Watch(const std::string& job) const;

 private:
  ServedJobs(Clock* clock, MemoryBudget* working) : clock_(clock), working_(working) {}

  Clock* const clock_;
  MemoryBudget* const working_;
  std::unique_ptr<EpochCatalog> catalog_;
  std::unique_ptr<Loader> loader_;
  // Null if there is no directory of jobs.
  std::unique_ptr<JobCensus> census_;
  std::unique_ptr<OwnedJobs> owned_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVED_JOBS_H_
