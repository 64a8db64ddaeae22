// grpc.channelz.v1.Channelz: what gRPC itself knows of connections and calls.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_CHANNELZ_SERVICE_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_CHANNELZ_SERVICE_H_

#include "service/server/calls/call_context.h"
#include "service/server/calls_grpc/early_service.h"

namespace packhouse::rpc {

// gRPC's own service (libgrpcpp_channelz) does not count its calls and asks nobody for a right.
// This one has the same messages, which that library brings along, and takes the answers from
// gRPC's core. Thread-safe.
class ChannelzService final : public EarlyService {
 public:
  explicit ChannelzService(const CallContext& context);
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_CHANNELZ_SERVICE_H_
