// The jobs that a server has, with what opens their epochs.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVED_JOBS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVED_JOBS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/jobs/job_census.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/loader.h"
#include "service/server/services/server_options.h"
#include "service/server/services/server_pools.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/logs/job_logs.h"

namespace packhouse::rpc {

class ServedJobs {
 public:
  // Without data sets, or without logs for the jobs, there are none, and no loader. The pointees
  // must outlive the result. Errors as Jobs::Create().
  static absl::StatusOr<std::unique_ptr<ServedJobs>> Open(const ServerOptions& options,
                                                          Clock* clock, DatasetStore* datasets,
                                                          MemoryBudget* working);

  // Lets the loader work on the pools, which must outlive this. To be called once, before there are
  // calls.
  void StartOn(ServerPools& pools);

  // Null together, without data sets.
  EpochCatalog* catalog() const { return catalog_.get(); }
  Loader* loader() const { return loader_.get(); }
  Jobs* jobs() const { return jobs_.get(); }
  // Whether several servers share the jobs.
  bool are_shared() const { return jobs_ != nullptr && !jobs_->is_alone(); }

  // What is to be done now and then, by one thread, where servers share the jobs: Jobs::Sweep() and
  // JobCensus::Turn(), whose error is returned. Waits for the store.
  absl::Status Sweep();
  // Epochs by namespace, of all servers.
  std::map<std::string, uint64_t> EpochsByNamespace() const;

 private:
  explicit ServedJobs(Clock* clock) : clock_(clock) {}

  Clock* const clock_;
  std::unique_ptr<EpochCatalog> catalog_;
  std::unique_ptr<Loader> loader_;
  // Null if there is no directory of jobs.
  std::unique_ptr<JobCensus> census_;
  std::unique_ptr<Jobs> jobs_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVED_JOBS_H_
