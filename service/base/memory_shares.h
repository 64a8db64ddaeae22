// Divides the memory of all calls together into shares.
#ifndef PACKHOUSE_SERVICE_BASE_MEMORY_SHARES_H_
#define PACKHOUSE_SERVICE_BASE_MEMORY_SHARES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace packhouse {

struct MemoryShares {
  // Graphs that wait to be packed: a quarter.
  uint64_t pending_bytes = 0;
  // Responses that are made and not sent: a quarter (unsent_budget.h).
  uint64_t unsent_bytes = 0;
  // Requests that are received and not accepted, whole or in part: a quarter. Beyond it gRPC ends
  // arbitrary streams with RESOURCE_EXHAUSTED.
  uint64_t received_bytes = 0;
  // Bytes that a client may send on a stream that nobody reads. gRPC's default grows with the speed
  // of the connection: with it, a stream whose client does not read takes ten times as much.
  int receive_window_bytes = 0;
  // The working share, a quarter: requests that are parsed and not answered, plans and epochs while
  // they are made and kept, named histograms (base/memory_budget.h).
  uint64_t working_bytes = 0;
};

// The most bytes outside the budget for calls and connections themselves.
inline constexpr uint64_t kMostBytesBeside = uint64_t{96} << 20;

// The least budget: eight messages of the largest size.
uint64_t LeastBudget(size_t max_message_bytes);

// `beside_bytes`: the bytes of all calls and connections themselves, at their largest number. The
// part above kMostBytesBeside is taken off the budget before the rest is divided.
//
// INVALID_ARGUMENT, naming --memory-budget, if the rest is below eight messages of the largest
// size.
absl::StatusOr<MemoryShares> DivideMemory(uint64_t budget, size_t max_message_bytes,
                                          size_t max_streams, uint64_t beside_bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_MEMORY_SHARES_H_
