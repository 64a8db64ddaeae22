#include "service/server/services/server_bounds.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/base/status_macros.h"
#include "service/server/services/server_options.h"

namespace packhouse::rpc {
namespace {

// At most the bytes of a batch's tensor names, dtypes and shapes.
constexpr int kBatchHeaderBytes = 1 << 20;
// At most the bytes of a graph's id and size tuple; MostGraphs() counts those with more components.
constexpr uint64_t kGraphBytes = sizeof(uint64_t) + kUsualComponents * sizeof(uint32_t);
// Open calls besides those that the gate and health let in: calls that wait for their requests,
// that were refused, or whose answers are not read.
constexpr size_t kSpareCalls = 256;
// gRPC's bytes for one connection and for one call, measured by tests/abuse, rounded up.
constexpr uint64_t kConnectionBytes = uint64_t{20} << 10;
constexpr uint64_t kCallBytes = uint64_t{18} << 10;
constexpr size_t kMostConnections = 2048;
// A client may begin its next calls before the server has heard that its last ones are over. Some
// more may be on threads that have answered and hold them a little longer.
constexpr size_t kLateCalls = 64;

size_t HalfOf(size_t bound) { return std::max<size_t>(1, bound / 2); }

// The connections that are paid for without being asked for.
size_t ConnectionsFor(const ServerOptions& options, uint64_t bytes_of_each) {
  const uint64_t least = LeastBudget(static_cast<size_t>(options.max_message_bytes));
  const uint64_t beyond = std::max(options.memory_budget, least) - least;
  const uint64_t reserve = kMostBytesBeside + std::min(options.memory_budget / 8, beyond);
  return std::clamp<uint64_t>(reserve / bytes_of_each, 1, kMostConnections);
}

}  // namespace

absl::StatusOr<ServerBounds> ServerBounds::Of(const ServerOptions& options) {
  if (options.max_message_bytes <= 2 * kBatchHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat("max_message_bytes: ", options.max_message_bytes,
                                                   ", must be above ", 2 * kBatchHeaderBytes));
  }
  const Gate::Bounds& gate = options.admission;
  ServerBounds bounds;
  bounds.calls_of_connection = options.max_streams_per_connection;
  const size_t most = 2 * bounds.calls_of_connection + kLateCalls;
  bounds.connection_calls = {.most_open = most, .most_wasted = most};
  const uint64_t bytes_of_each = kConnectionBytes + bounds.calls_of_connection * kCallBytes;
  bounds.connections.most =
      options.max_connections.value_or(ConnectionsFor(options, bytes_of_each));
  bounds.connections.most_of_client =
      options.max_connections_per_client.value_or(HalfOf(bounds.connections.most));
  bounds.watches = {options.max_health_watches, HalfOf(options.max_health_watches)};
  bounds.open_calls = {gate.max_streams + gate.max_calls + options.max_health_watches + kSpareCalls,
                       gate.max_streams_per_client.value_or(HalfOf(gate.max_streams)) +
                           gate.max_calls_per_client.value_or(HalfOf(gate.max_calls)) +
                           bounds.watches.most_of_client + kSpareCalls / 2};
  PH_ASSIGN_OR_RETURN(
      bounds.shares,
      DivideMemory(options.memory_budget, static_cast<size_t>(options.max_message_bytes),
                   gate.max_streams, bounds.connections.most * bytes_of_each));
  return bounds;
}

// A message must hold a batch: an eighth is for ids and sizes, the rest for tensors.
StreamBounds StreamBoundsOf(const ServerOptions& options, ByteQuota* quota) {
  StreamBounds bounds = options.streams;
  bounds.quota = quota;
  const uint64_t message_bytes = options.max_message_bytes;
  bounds.max_graphs_per_batch =
      std::min(bounds.max_graphs_per_batch, message_bytes / 8 / kGraphBytes);
  bounds.max_batch_bytes = message_bytes / 8 * 7 - kBatchHeaderBytes;
  return bounds;
}

}  // namespace packhouse::rpc
