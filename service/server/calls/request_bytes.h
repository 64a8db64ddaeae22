// The bytes of a request, and their parsing.
//
// The services handle raw bytes. gRPC would end the stream for a request that does not parse, or
// answer a unary call with UNIMPLEMENTED; here the error is INVALID_ARGUMENT.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_BYTES_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "service/base/memory_budget.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_footprint.h"

namespace packhouse {

// The received bytes; only the connection knows how they lie in memory. Thread-compatible.
class RequestBytes {
 public:
  virtual ~RequestBytes() = default;

  virtual size_t size() const = 0;
  // Calls `read` once with a stream of all bytes, which lives until it returns.
  virtual void Read(
      absl::FunctionRef<void(google::protobuf::io::ZeroCopyInputStream& stream)> read) const = 0;
};

// Parses the bytes into the empty `message`. The result holds the message's memory of `working`
// (null: nothing is counted); keep it as long as the message. Fields that the service does not know
// are dropped. A message that takes at most `uncounted` bytes holds nothing, and needs no room: so
// one client with large requests does not keep others from asking for little. The caller bounds how
// many of those there are at a time.
//
// INVALID_ARGUMENT if the bytes are no message of this type, or if the message would take more than
// MostFootprint() in memory; names the field that takes most. RESOURCE_EXHAUSTED if there is no
// room for it now. With an error nothing was parsed. A message that is alone in the budget always
// has room.
template <typename Message>
absl::StatusOr<MemoryHold> ParseRequest(const RequestBytes& bytes, MemoryBudget* working,
                                        Message* message, uint64_t uncounted = 0) {
  using Stream = google::protobuf::io::ZeroCopyInputStream;
  const size_t size = bytes.size();
  const FootprintTable& table = FootprintTableOf<Message>();
  const uint64_t most = MostFootprint(size, kFootprintTimesOf<Message>);
  const auto malformed = [&] {
    return absl::InvalidArgumentError(absl::StrCat("the request of ", size, " bytes is not a ",
                                                   message->GetTypeName(),
                                                   ": truncated or malformed"));
  };
  absl::StatusOr<WireFootprint> measured;
  bytes.Read([&](Stream& stream) { measured = table.Measure(&stream, size, most); });
  if (!measured.ok()) return malformed();
  if (measured->bytes > most) {
    std::string largest;
    bytes.Read([&](Stream& stream) { largest = table.LargestField(&stream, size, most); });
    return absl::InvalidArgumentError(absl::StrCat("the request ", message->GetTypeName(), " of ",
                                                   size, " bytes would take more than the ", most,
                                                   " bytes of memory that it may: ", largest));
  }
  MemoryHold hold;
  if (working != nullptr && measured->bytes > uncounted) {
    const bool is_usual = measured->bytes <= MostFootprint(size);
    PH_ASSIGN_OR_RETURN(hold, working->Hold("a request while it is at work",
                                            is_usual ? std::min(measured->bytes, working->bound())
                                                     : measured->bytes));
  }
  bool is_parsed = false;
  bytes.Read([&](Stream& stream) { is_parsed = message->ParseFromZeroCopyStream(&stream); });
  if (!is_parsed) return malformed();
  if (measured->unknown_bytes != 0) {
    message->DiscardUnknownFields();
    hold.ShrinkTo(measured->bytes - measured->unknown_bytes);
  }
  return hold;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_BYTES_H_
