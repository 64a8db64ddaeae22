// PlanningService (proto/packhouse/v1/planning.proto).
#ifndef PACKHOUSE_SERVICE_RPC_PLANNING_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_PLANNING_SERVICE_H_

#include "packhouse/v1/planning.grpc.pb.h"
#include "service/datasets/histogram_store.h"
#include "service/rpc/call_context.h"

namespace packhouse::rpc {

// The pointees must outlive the service. Thread-safe.
class PlanningService final
    : public v1::PlanningService::WithRawCallbackMethod_Plan<v1::PlanningService::Service> {
 public:
  PlanningService(const CallContext& context, const HistogramStore* histograms)
      : context_(context), histograms_(histograms) {}

  grpc::ServerUnaryReactor* Plan(grpc::CallbackServerContext* call, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;

 private:
  const CallContext context_;
  const HistogramStore* const histograms_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_PLANNING_SERVICE_H_
