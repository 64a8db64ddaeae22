// LoaderService (proto/packhouse/v1/loader.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_LOADER_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_LOADER_SERVICE_H_

#include <memory>
#include <string>
#include <utility>

#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/base/early_end.h"
#include "service/engine/jobs/jobs.h"
#include "service/engine/jobs/lease_timer.h"
#include "service/engine/jobs/loader.h"
#include "service/engine/jobs/retention_timer.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls/request_call.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/lanes/lane_door.h"
#include "service/server/services/job_place.h"
#include "service/server/services/load_source.h"
#include "service/server/wire/epoch_kinds.h"
#include "service/server/wire/example_format.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse::rpc {

// Plans are made on the planning pool, batches are built on the stream pool, and acknowledgements
// wait for the disk on the append pool. Thread-safe.
class LoaderService final : public EarlyService {
 public:
  // The pointees must outlive the service. `datasets`, `loader` and `jobs` may be null together:
  // then every call is answered with NoDataFolder(). `kinds` are those of wings. `measured` has
  // what was measured of devices. `lanes` may be null: there are none. `format`: of exports.
  LoaderService(const CallContext& context, const DatasetStore* datasets, const EpochKinds* kinds,
                Loader* loader, Jobs* jobs, PackObserverFactory* observers,
                const MeasuredModels* measured, LaneDoor* lanes, const ExampleFormat& format);
  ~LoaderService() override;

  // Every Load stream ends with `status`, after the batches that were made for it; new streams end
  // at once. All other calls about jobs that are here are answered as usual. May be called once.
  void EndLoads(absl::Status status) {
    if (jobs_ != nullptr) jobs_->EndAll(status);
    early_end_.Begin(std::move(status));
  }

 private:
  absl::StatusOr<std::unique_ptr<ResponseSource<LoadReply>>> Load(const v1::LoadRequest& request,
                                                                  ProgressSink<LoadReply>& sink);
  absl::StatusOr<v1::Epoch> Describe(const v1::GetEpochRequest& request, RequestCall& call) const;
  absl::StatusOr<std::unique_ptr<ResponseSource<v1::ExportDatasetResponse>>> Export(
      const v1::ExportEpochRequest& request, ProgressSink<v1::ExportDatasetResponse>& sink) const;
  // The job that the request names (OpenJob()).
  template <typename Request>
  absl::StatusOr<std::shared_ptr<Job>> JobOf(const Request& request, RequestCall& call) const {
    return OpenJob(*jobs_, request.job(), call.headers());
  }

  const DatasetStore* const datasets_;
  const EpochKinds* const kinds_;
  Loader* const loader_;
  Jobs* const jobs_;
  PackObserverFactory* const observers_;
  const std::shared_ptr<LeaseTimer> timer_;
  const MeasuredModels* const measured_;
  LaneDoor* const lanes_;
  const ExampleFormat& format_;
  EarlyEnd early_end_;
  const std::shared_ptr<RetentionTimer> retention_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_LOADER_SERVICE_H_
