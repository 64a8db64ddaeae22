// The client's end of a lane: batches of a Load stream in memory that the server shares
// (docs/lane.md). Does not use gRPC.
#ifndef PACKHOUSE_CLIENT_CPP_LANE_READER_H_
#define PACKHOUSE_CLIENT_CPP_LANE_READER_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// What the server has told about the next response of the stream.
struct LaneMessage {
  enum class Kind {
    kBatch,   // It is `response`.
    kByGrpc,  // It is to be read from gRPC.
    kEnd,  // The lane has ended: gRPC has the status. Responses that it has are not the next ones.
    kQuiet,  // Nothing has come for as long as Open() was told.
  };
  Kind kind = Kind::kEnd;
  // The bytes of a LoadResponse, whose tensors are at multiples of 64.
  absl::string_view response;
  // Holds them. Gives the slot back to the server when the last copy goes, whatever has become of
  // the reader, the stream and the server meanwhile.
  std::shared_ptr<const void> owner;
};

// Take() from one thread at a time; the rest is thread-safe, and so are owners. A process that was
// forked has copies of the responses that were held then, at the same addresses: a fork takes the
// time and the memory of copying them, and where there is no memory, reading them ends the child.
// The lane stays the parent's: the child's owners give nothing back, its Take() gives kEnd, and its
// Cancel() does nothing.
class LaneReader {
 public:
  // As LaneSlots::Open(). `quiet`: as LaneMessage::kQuiet says; infinite: never.
  static absl::StatusOr<std::unique_ptr<LaneReader>> Open(const v1::Lane& offer,
                                                          absl::Duration quiet);
  // The server sees that the lane has ended.
  ~LaneReader();
  LaneReader(const LaneReader&) = delete;
  LaneReader& operator=(const LaneReader&) = delete;

  // How many responses of the stream come before the lane.
  uint64_t num_before() const;

  // Waits for the next message. When fewer than two slots would be left to the server, the response
  // is a copy, and its slot is given back at once.
  LaneMessage Take();

  // Makes a waiting Take(), and every later one, give kEnd.
  void Cancel();

 private:
  class Memory;
  class Slot;

  explicit LaneReader(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

  const std::shared_ptr<Memory> memory_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LANE_READER_H_
