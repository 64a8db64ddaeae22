// LoaderService (proto/packhouse/v1/loader.proto).
#ifndef PACKHOUSE_SERVICE_RPC_LOADER_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_LOADER_SERVICE_H_

#include <memory>
#include <utility>

#include "packhouse/v1/loader.grpc.pb.h"
#include "service/admission/call_context.h"
#include "service/admission/early_end.h"
#include "service/datasets/dataset_store.h"
#include "service/delivery/lease_timer.h"
#include "service/delivery/loader.h"
#include "service/delivery/retention_timer.h"
#include "service/streams/pack_observer.h"

namespace packhouse::rpc {

using RawLoaderService = v1::LoaderService::WithRawCallbackMethod_Load<
    v1::LoaderService::WithRawCallbackMethod_Acknowledge<
        v1::LoaderService::WithRawCallbackMethod_GetEpoch<
            v1::LoaderService::WithRawCallbackMethod_ReportStep<
                v1::LoaderService::WithRawCallbackMethod_DeleteJob<
                    v1::LoaderService::WithRawCallbackMethod_ListJobs<
                        v1::LoaderService::WithRawCallbackMethod_GetJob<
                            v1::LoaderService::Service>>>>>>>;

// Plans are made on the call pool, batches are built on the stream pool, acknowledgements wait for
// the disk on the append pool. Thread-safe.
class LoaderService final : public RawLoaderService {
 public:
  // The pointees must outlive the service. `datasets` and `loader` are null together: then every
  // call is answered NoDataFolder().
  LoaderService(const CallContext& context, const DatasetStore* datasets, Loader* loader,
                PackObserverFactory* observers);
  ~LoaderService() override;

  // Every Load stream ends where it is, with `status` after what was made for it; new ones end so
  // at once. All other calls are answered as ever. May be called once.
  void EndLoads(absl::Status status) { early_end_.Begin(std::move(status)); }

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Load(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Acknowledge(grpc::CallbackServerContext* call,
                                        const grpc::ByteBuffer* request,
                                        grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetEpoch(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReportStep(grpc::CallbackServerContext* call,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DeleteJob(grpc::CallbackServerContext* call,
                                      const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* call,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* call,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  const CallContext context_;
  const CallContext append_context_;
  const DatasetStore* const datasets_;
  Loader* const loader_;
  PackObserverFactory* const observers_;
  const std::shared_ptr<LeaseTimer> timer_;
  EarlyEnd early_end_;
  const std::shared_ptr<RetentionTimer> retention_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_LOADER_SERVICE_H_
