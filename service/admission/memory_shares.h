// How the memory that all calls may hold together is divided.
#ifndef PACKHOUSE_SERVICE_ADMISSION_MEMORY_SHARES_H_
#define PACKHOUSE_SERVICE_ADMISSION_MEMORY_SHARES_H_

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
  // streams, with RESOURCE_EXHAUSTED, whichever they are.
  uint64_t received_bytes = 0;
  // What a client may send of a stream that nobody reads. With gRPC's own default, which grows with
  // the speed of the connection, a stream whose client does not read takes ten times as much.
  int receive_window_bytes = 0;
  // What work is done with and on: requests that are parsed and not answered, plans and epochs
  // while they are made and as long as they are there, named histograms: a quarter
  // (admission/memory_budget.h).
  uint64_t working_bytes = 0;
};

// What may be taken beside the budget for calls and connections as such.
inline constexpr uint64_t kMostBytesBeside = uint64_t{96} << 20;

// `beside_bytes`: what all calls and connections take for themselves, if they are as many as they
// may be. What of it is above kMostBytesBeside is set apart before the rest is divided.
//
// INVALID_ARGUMENT, naming --memory-budget, if the rest is below eight messages of the largest
// size.
absl::StatusOr<MemoryShares> DivideMemory(uint64_t budget, size_t max_message_bytes,
                                          size_t max_streams, uint64_t beside_bytes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ADMISSION_MEMORY_SHARES_H_
