// PackingService (proto/packhouse/v1/packing.proto).
#ifndef PACKHOUSE_SERVICE_RPC_PACKING_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_PACKING_SERVICE_H_

#include "packhouse/v1/packing.grpc.pb.h"
#include "service/admission/call_context.h"
#include "service/histograms/histogram_store.h"
#include "service/streams/pack_observer.h"
#include "service/streams/stream_packer.h"

namespace packhouse::rpc {

// The pointees must outlive the service. Thread-safe.
class PackingService final
    : public v1::PackingService::WithRawCallbackMethod_Pack<v1::PackingService::Service> {
 public:
  PackingService(const CallContext& context, const StreamBounds& bounds, HistogramStore* histograms,
                 PackObserverFactory* observers)
      : context_(context), bounds_(bounds), histograms_(histograms), observers_(observers) {}

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Pack(
      grpc::CallbackServerContext* call) override;

 private:
  const CallContext context_;
  const StreamBounds bounds_;
  HistogramStore* const histograms_;
  PackObserverFactory* const observers_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_PACKING_SERVICE_H_
