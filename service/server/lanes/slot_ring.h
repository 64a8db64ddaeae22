// Whose each slot of a lane is.
#ifndef PACKHOUSE_SERVICE_SERVER_LANES_SLOT_RING_H_
#define PACKHOUSE_SERVICE_SERVER_LANES_SLOT_RING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// A slot is free, the server's while a batch is written, or the client's from when it is told of
// the batch until it releases the slot. Nothing of this lies in the memory that the client can
// write. Thread-compatible. O(1), or O(slots of a message).
class SlotRing {
 public:
  explicit SlotRing(uint32_t num_slots);

  // From free to the server's: the slot that became free last, since it is the likeliest to be in a
  // cache.
  std::optional<uint32_t> Take();
  // From the server's to free.
  void GiveBack(uint32_t slot);
  // From the server's to the client's.
  void Send(uint32_t slot);
  // From the client's to free: what the client says, numbers of 4 bytes, little-endian.
  // INVALID_ARGUMENT for anything that it cannot say truthfully; the slots before it are released.
  absl::Status Release(absl::string_view message);

  // From the client's to the server's, for what the client has put there. INVALID_ARGUMENT if the
  // client does not have it.
  absl::Status TakeBack(uint32_t slot);

  uint32_t num_slots() const { return static_cast<uint32_t>(owners_.size()); }
  uint32_t num_free() const { return static_cast<uint32_t>(free_.size()); }
  // The client's.
  uint32_t num_sent() const { return num_sent_; }

 private:
  enum class Owner : uint8_t { kNobody, kServer, kClient };

  std::vector<Owner> owners_;
  std::vector<uint32_t> free_;
  uint32_t num_sent_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_LANES_SLOT_RING_H_
