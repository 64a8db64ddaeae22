// PlanningService (proto/packhouse/v1/planning.proto).
#ifndef PACKHOUSE_SERVICE_RPC_PLANNING_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_PLANNING_SERVICE_H_

#include "packhouse/v1/planning.grpc.pb.h"
#include "service/admission/call_context.h"
#include "service/histograms/histogram_store.h"
#include "service/streams/byte_quota.h"

namespace packhouse::rpc {

using RawPlanningService = v1::PlanningService::WithRawCallbackMethod_Plan<
    v1::PlanningService::WithRawCallbackMethod_Tune<v1::PlanningService::Service>>;

// The pointees must outlive the service. Thread-safe.
class PlanningService final : public RawPlanningService {
 public:
  // `quota` counts the bytes of grids that are being sent; `max_graphs_per_batch` is what epochs
  // allow, for those who plan them.
  PlanningService(const CallContext& context, const HistogramStore* histograms, ByteQuota* quota,
                  uint64_t max_graphs_per_batch)
      : context_(context),
        histograms_(histograms),
        quota_(quota),
        max_graphs_per_batch_(max_graphs_per_batch) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Tune(grpc::CallbackServerContext* call,
                                                   const grpc::ByteBuffer* request) override;

 private:
  const CallContext context_;
  const HistogramStore* const histograms_;
  ByteQuota* const quota_;
  const uint64_t max_graphs_per_batch_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_PLANNING_SERVICE_H_
