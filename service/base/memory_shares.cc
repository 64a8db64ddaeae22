#include "service/base/memory_shares.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace packhouse {
namespace {

constexpr uint64_t kLeastMessages = 8;
// HTTP/2's default window.
constexpr uint64_t kLeastWindow = uint64_t{64} << 10;
// A larger window does not make uploads faster within a data centre: this one allows 1 GB/s at a
// millisecond.
constexpr uint64_t kMostWindow = uint64_t{1} << 20;

}  // namespace

uint64_t LeastBudget(size_t max_message_bytes) { return kLeastMessages * max_message_bytes; }

absl::StatusOr<MemoryShares> DivideMemory(uint64_t budget, size_t max_message_bytes,
                                          size_t max_streams, uint64_t beside_bytes) {
  const uint64_t apart = std::max(beside_bytes, kMostBytesBeside) - kMostBytesBeside;
  const uint64_t least = LeastBudget(max_message_bytes) + apart;
  if (budget < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--memory-budget: ", budget, " bytes, must be at least ", least, ", ", kLeastMessages,
        " times --max-message-bytes",
        apart == 0 ? ""
                   : absl::StrCat(" and ", apart,
                                  " for what so many --max-connections and "
                                  "--max-streams-per-connection take for themselves")));
  }
  budget -= apart;
  MemoryShares shares;
  shares.pending_bytes = budget / 4;
  shares.unsent_bytes = budget / 4;
  shares.received_bytes = budget / 4;
  shares.working_bytes = budget / 4;
  // The other half is for messages that are being read; they may be larger than the window.
  shares.receive_window_bytes = static_cast<int>(std::clamp(
      shares.received_bytes / 2 / std::max<size_t>(1, max_streams), kLeastWindow, kMostWindow));
  return shares;
}

}  // namespace packhouse
