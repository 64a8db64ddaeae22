// What a server bounds, as it follows from its options.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_BOUNDS_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_BOUNDS_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "service/access/fair_bound.h"
#include "service/base/memory_shares.h"
#include "service/engine/streams/byte_quota.h"
#include "service/engine/streams/stream_packer.h"
#include "service/server/calls/connection_calls.h"

namespace packhouse::rpc {

struct ServerOptions;

// gRPC makes a call before the service can refuse it, so memory for as many calls as all
// connections may have together is put by. The reserve is kMostBytesBeside, and up to an eighth of
// the memory budget beyond the least one. The number of connections, if it is not given, is what
// the reserve pays for, at most 2048. If it is given and needs more, that is taken off the budget.
struct ServerBounds {
  MemoryShares shares;
  FairBound::Bounds connections;
  size_t calls_of_connection = 0;
  ConnectionCalls::Bounds connection_calls;
  // Streams of Health.Watch.
  FairBound::Bounds watches;
  // Calls in any state.
  FairBound::Bounds open_calls;

  // INVALID_ARGUMENT naming the flags, the budget, and the least one that would do.
  static absl::StatusOr<ServerBounds> Of(const ServerOptions& options);
};

// `quota` may be null. Batches are bounded by the largest message.
StreamBounds StreamBoundsOf(const ServerOptions& options, ByteQuota* quota);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_SERVER_BOUNDS_H_
