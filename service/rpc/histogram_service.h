// HistogramService (proto/packhouse/v1/histogram.proto).
#ifndef PACKHOUSE_SERVICE_RPC_HISTOGRAM_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_HISTOGRAM_SERVICE_H_

#include "packhouse/v1/histogram.grpc.pb.h"
#include "service/admission/call_context.h"
#include "service/histograms/histogram_store.h"

namespace packhouse::rpc {

using RawHistogramService = v1::HistogramService::WithRawCallbackMethod_Observe<
    v1::HistogramService::WithRawCallbackMethod_GetHistogram<
        v1::HistogramService::WithRawCallbackMethod_MergeHistogram<
            v1::HistogramService::WithRawCallbackMethod_DeleteHistogram<
                v1::HistogramService::Service>>>>;

// The pointees must outlive the service. Thread-safe.
class HistogramService final : public RawHistogramService {
 public:
  HistogramService(const CallContext& context, HistogramStore* histograms)
      : context_(context), histograms_(histograms) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Observe(
      grpc::CallbackServerContext* call) override;
  grpc::ServerUnaryReactor* GetHistogram(grpc::CallbackServerContext* call,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* MergeHistogram(grpc::CallbackServerContext* call,
                                           const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* DeleteHistogram(grpc::CallbackServerContext* call,
                                            const grpc::ByteBuffer* request,
                                            grpc::ByteBuffer* response) override;

 private:
  const CallContext context_;
  HistogramStore* const histograms_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_HISTOGRAM_SERVICE_H_
