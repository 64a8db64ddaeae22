// PackingService (proto/packhouse/v1/packing.proto).
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_PACKING_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_PACKING_SERVICE_H_

#include "service/engine/histograms/histogram_store.h"
#include "service/engine/streams/live_streams.h"
#include "service/engine/streams/pack_observer.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"
#include "service/server/lanes/lane_door.h"
#include "service/server/wire/example_format.h"

namespace packhouse::rpc {

// The pointees must outlive the service; `lanes` may be null: there are none. `format`: of
// examples. Thread-safe.
class PackingService final : public EarlyService {
 public:
  PackingService(const CallContext& context, const StreamBounds& bounds, HistogramStore* histograms,
                 PackObserverFactory* observers, LiveStreams* live, LaneDoor* lanes,
                 const ExampleFormat& format);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_PACKING_SERVICE_H_
