// The client's end of a lane (docs/lane.md), whoever fills its slots. Does not use gRPC.
#ifndef PACKHOUSE_CLIENT_CPP_LANE_SLOTS_H_
#define PACKHOUSE_CLIENT_CPP_LANE_SLOTS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// The mapping and the socket, as long as it lives. Thread-safe.
class LaneSlots {
 public:
  // Of the server.
  struct Message {
    uint32_t slot = 0;
    uint32_t offset = 0;
    uint64_t size = 0;
  };

  // Opens what the server offers. Waits for its answer, which comes at once. `quiet`: how long a
  // message is waited for.
  //
  // FAILED_PRECONDITION if the server offers none, or is on another host. NOT_FOUND if the stream
  // has ended for the server. UNAVAILABLE if it has gone, or does not answer, or this process has
  // no memory or descriptor left.
  static absl::StatusOr<std::unique_ptr<LaneSlots>> Open(const v1::Lane& offer,
                                                         absl::Duration quiet);
  ~LaneSlots();
  LaneSlots(const LaneSlots&) = delete;
  LaneSlots& operator=(const LaneSlots&) = delete;

  int socket() const { return socket_; }
  uint32_t num_slots() const { return num_slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  char* slot(uint32_t number) const { return data_ + number * slot_bytes_; }
  // How many responses of the stream come before the lane.
  uint64_t num_before() const { return num_before_; }

  // The next message. nullopt: there is none, and errno says why, or is 0 at the end and for what
  // is no message.
  std::optional<Message> Receive(bool waits) const;
  // Ends the lane for both sides, and what waits for a message.
  void Cancel() const;

 private:
  LaneSlots(int socket, char* data, uint32_t num_slots, uint64_t slot_bytes, uint64_t num_before)
      : socket_(socket),
        data_(data),
        num_slots_(num_slots),
        slot_bytes_(slot_bytes),
        num_before_(num_before) {}

  const int socket_;
  char* const data_;
  const uint32_t num_slots_;
  const uint64_t slot_bytes_;
  const uint64_t num_before_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LANE_SLOTS_H_
