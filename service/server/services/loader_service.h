// LoaderService (proto/packhouse/v1/loader.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_LOADER_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_LOADER_SERVICE_H_

#include <memory>
#include <utility>

#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/base/early_end.h"
#include "service/engine/jobs/lease_timer.h"
#include "service/engine/jobs/loader.h"
#include "service/engine/jobs/owned_jobs.h"
#include "service/engine/jobs/retention_timer.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse::rpc {

// Plans are made on the planning pool, batches are built on the stream pool, and acknowledgements
// wait for the disk on the append pool. Thread-safe.
class LoaderService final : public EarlyService {
 public:
  // The pointees must outlive the service. `datasets` and `loader` may be null together: then every
  // call is answered with NoDataFolder().
  // `graphs` is for epochs of sub-graphs; it may be null. `owned`: the loaders of jobs, if several
  // servers share the jobs; then `loader` has none. Null: `loader` has all of them. `measured` has
  // what was measured of devices.
  LoaderService(const CallContext& context, const DatasetStore* datasets,
                const SourceGraphStore* graphs, Loader* loader, OwnedJobs* owned,
                PackObserverFactory* observers, const MeasuredModels* measured);
  ~LoaderService() override;

  // Every Load stream ends with `status`, after the batches that were made for it; new streams end
  // at once. All other calls are answered as usual. May be called once.
  void EndLoads(absl::Status status) {
    if (owned_ != nullptr) owned_->EndAll(status);
    early_end_.Begin(std::move(status));
  }

 private:
  CallReactor* Load(grpc::CallbackServerContext* call);
  CallReactor* Acknowledge(grpc::CallbackServerContext* call);
  CallReactor* GetEpoch(grpc::CallbackServerContext* call);
  CallReactor* ExportEpoch(grpc::CallbackServerContext* call);
  CallReactor* ReportStep(grpc::CallbackServerContext* call);
  CallReactor* DeleteJob(grpc::CallbackServerContext* call);
  CallReactor* ListJobs(grpc::CallbackServerContext* call);
  CallReactor* GetJob(grpc::CallbackServerContext* call);

  const CallContext context_;
  const CallContext append_context_;
  const DatasetStore* const datasets_;
  const SourceGraphStore* const graphs_;
  Loader* const loader_;
  OwnedJobs* const owned_;
  PackObserverFactory* const observers_;
  const std::shared_ptr<LeaseTimer> timer_;
  const MeasuredModels* const measured_;
  EarlyEnd early_end_;
  const std::shared_ptr<RetentionTimer> retention_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_LOADER_SERVICE_H_
