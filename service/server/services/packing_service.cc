#include "service/server/services/packing_service.h"

#include <memory>
#include <utility>

#include "packhouse/v1/packing.grpc.pb.h"
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
    : EarlyService(v1::PackingService::service_full_name(), context) {
  const auto open = [=, &format](const StreamOpening& stream)
      -> std::unique_ptr<StreamHandler<v1::PackRequest, PackReply>> {
    const CallContext& of_call = stream.context;
    auto handler =
        std::make_unique<PackHandler>(of_call.clock, bounds, histograms, observers, of_call.working,
                                      stream.planning, of_call.observer, format);
    handler->ListAmong(live, {of_call.client, of_call.principal()});
    if (!stream.headers.Has(kAskKey)) return handler;
    // The headers of the answer leave with `opened`.
    const auto tell = [&of_call, &headers = stream.headers](const PackLaneHandler::Offers& offers) {
      headers.Add(kOfferKey, offers.to_client.SerializeAsString());
      if (offers.to_server) {
        headers.Add(kOfferForGraphsKey, offers.to_server->SerializeAsString());
      }
      of_call.ListLane(offers.uses_lane);
    };
    return std::make_unique<PackLaneHandler>(std::move(handler),
                                             stream.headers.Has(kAskForGraphsKey), lanes,
                                             of_call.clock, tell, stream.wake);
  };
  Serve({StreamRow<v1::PackRequest, PackReply>(Method::kPack, Waits::kTurns, absl::OkStatus(),
                                               open)});
}

}  // namespace packhouse::rpc
