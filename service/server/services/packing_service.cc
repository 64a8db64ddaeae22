#include "service/server/services/packing_service.h"

#include <memory>
#include <utility>

#include "packhouse/v1/packing.grpc.pb.h"
#include "service/server/calls_grpc/stream_reactor.h"
#include "service/server/services/pack_handler.h"

namespace packhouse::rpc {

PackingService::PackingService(const CallContext& context, const StreamBounds& bounds,
                               HistogramStore* histograms, PackObserverFactory* observers,
                               LiveStreams* live)
    : EarlyService(v1::PackingService::service_full_name()),
      context_(context),
      bounds_(bounds),
      histograms_(histograms),
      observers_(observers),
      live_(live) {
  Serve("Pack", &PackingService::Pack);
}

CallReactor* PackingService::Pack(grpc::CallbackServerContext* call) {
  return StreamReactor<v1::PackRequest, PackReply>::StartPlanning(
      context_, *call, Method::kPack,
      [this](const CallContext& call_context, std::shared_ptr<StreamPlanning> planning) {
        auto handler =
            std::make_unique<PackHandler>(context_.clock, bounds_, histograms_, observers_,
                                          context_.working, std::move(planning), context_.observer);
        handler->ListAmong(live_, {call_context.client, call_context.principal()});
        return handler;
      });
}

}  // namespace packhouse::rpc
