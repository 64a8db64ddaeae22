#include "service/server/services/packing_service.h"

#include <memory>
#include <utility>

#include "packhouse/v1/packing.grpc.pb.h"
#include "service/server/calls_grpc/stream_reactor.h"
#include "service/server/services/pack_handler.h"
#include "service/server/services/pack_lane.h"

namespace packhouse::rpc {
namespace {

// By what a call asks for a lane, and is offered one (docs/lane.md): how its bytes travel is no
// part of what it says.
constexpr char kAskKey[] = "packhouse-lane";
constexpr char kOfferKey[] = "packhouse-lane-bin";
// The same of one for graphs, the other way.
constexpr char kAskForGraphsKey[] = "packhouse-lane-graphs";
constexpr char kOfferForGraphsKey[] = "packhouse-lane-graphs-bin";

}  // namespace

PackingService::PackingService(const CallContext& context, const StreamBounds& bounds,
                               HistogramStore* histograms, PackObserverFactory* observers,
                               LiveStreams* live, LaneDoor* lanes, const ExampleFormat& format)
    : EarlyService(v1::PackingService::service_full_name()),
      context_(context),
      bounds_(bounds),
      histograms_(histograms),
      observers_(observers),
      live_(live),
      lanes_(lanes),
      format_(format) {
  Serve("Pack", &PackingService::Pack);
}

CallReactor* PackingService::Pack(grpc::CallbackServerContext* call) {
  using Reactor = StreamReactor<v1::PackRequest, PackReply>;
  return Reactor::StartPlanning(
      context_, *call, Method::kPack,
      [this, call](const CallContext& call_context, std::shared_ptr<StreamPlanning> planning,
                   std::function<void()> wake) -> std::unique_ptr<Reactor::Handler> {
        auto handler = std::make_unique<PackHandler>(
            context_.clock, bounds_, histograms_, observers_, context_.working, std::move(planning),
            context_.observer, format_);
        handler->ListAmong(live_, {call_context.client, call_context.principal()});
        if (call->client_metadata().count(kAskKey) == 0) return handler;
        // The headers of the answer leave with `opened`.
        const auto tell = [call, call_context](const PackLaneHandler::Offers& offers) {
          call->AddInitialMetadata(kOfferKey, offers.to_client.SerializeAsString());
          if (offers.to_server) {
            call->AddInitialMetadata(kOfferForGraphsKey, offers.to_server->SerializeAsString());
          }
          call_context.ListLane(offers.uses_lane);
        };
        const bool takes_graphs = call->client_metadata().count(kAskForGraphsKey) != 0;
        return std::make_unique<PackLaneHandler>(std::move(handler), takes_graphs, lanes_,
                                                 context_.clock, tell, std::move(wake));
      });
}

}  // namespace packhouse::rpc
