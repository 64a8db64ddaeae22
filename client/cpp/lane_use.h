// Whether batches come through memory that a server on this host shares (docs/lane.md).
#ifndef PACKHOUSE_CLIENT_CPP_LANE_USE_H_
#define PACKHOUSE_CLIENT_CPP_LANE_USE_H_

namespace packhouse::client {

// Whether to take a lane. kIfPossible: if the server offers one and is on this host. kRequired:
// otherwise the stream fails with FAILED_PRECONDITION, which says why, or UNAVAILABLE if the server
// has gone or does not answer.
enum class LaneUse { kOff, kIfPossible, kRequired };

// The way that batches come.
enum class LoadTransport { kGrpc, kLane };

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LANE_USE_H_
