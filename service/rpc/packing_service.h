// PackingService (proto/packhouse/v1/packing.proto).
#ifndef PACKHOUSE_SERVICE_RPC_PACKING_SERVICE_H_
#define PACKHOUSE_SERVICE_RPC_PACKING_SERVICE_H_

#include "service/admission/call_context.h"
#include "service/histograms/histogram_store.h"
#include "service/rpc/early_service.h"
#include "service/streams/live_streams.h"
#include "service/streams/pack_observer.h"
#include "service/streams/stream_packer.h"

namespace packhouse::rpc {

// The pointees must outlive the service. Thread-safe.
class PackingService final : public EarlyService {
 public:
  PackingService(const CallContext& context, const StreamBounds& bounds, HistogramStore* histograms,
                 PackObserverFactory* observers, LiveStreams* live);

 private:
  CallReactor* Pack(grpc::CallbackServerContext* call);

  const CallContext context_;
  const StreamBounds bounds_;
  HistogramStore* const histograms_;
  PackObserverFactory* const observers_;
  LiveStreams* const live_;
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_RPC_PACKING_SERVICE_H_
