// The memory that a message will take, computed from its bytes before they are parsed.
//
// Two bytes of a request can take a hundred in memory: an empty sub-message is a tag and a length
// on the wire, and an object with a pointer to it in memory. So the bytes are walked first, field
// by field along the message's descriptor. A message that would take too much is not parsed at all.
//
// Every allocation is counted with the allocator's overhead (a header, multiples of 16). Growing
// arrays are counted at their worst: twice as long as necessary, and for one of them the old array
// as well. So the footprint is at least what protobuf allocates at any moment, and less than three
// times what it keeps.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_FOOTPRINT_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_FOOTPRINT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/message.h"

namespace packhouse::v1 {
class PlanRequest;
}  // namespace packhouse::v1

namespace packhouse {

// A message may take this many times its bytes in memory, and 1 MiB.
inline constexpr uint64_t kFootprintTimes = 4;
template <typename Message>
inline constexpr uint64_t kFootprintTimesOf = kFootprintTimes;
// A pattern of a warm start has about 15 bytes on the wire and 200 in memory: a plan for many sizes
// is no attack. The memory beyond kFootprintTimes is subject to the budget like any other.
template <>
inline constexpr uint64_t kFootprintTimesOf<v1::PlanRequest> = 16;

// The most bytes of memory that a message of `size` bytes may take.
constexpr uint64_t MostFootprint(uint64_t size, uint64_t times = kFootprintTimes) {
  return times * size + (uint64_t{1} << 20);
}

struct WireFootprint {
  // Bytes of the message while it is parsed and after.
  uint64_t bytes = 0;
  // Of these, the bytes of fields that the service does not know.
  uint64_t unknown_bytes = 0;
};

// The tables for one type of message: which field takes which memory. Immutable after construction;
// thread-safe.
class FootprintTable {
 public:
  // For messages of the type of `message`.
  explicit FootprintTable(const google::protobuf::Message& message);
  ~FootprintTable();
  FootprintTable(const FootprintTable&) = delete;
  FootprintTable& operator=(const FootprintTable&) = delete;

  // The footprint of the message in the `size` bytes.
  //
  // INVALID_ARGUMENT if they are truncated or malformed, or nested more than 100 deep. Bytes that
  // protobuf parses are never refused as malformed. Stops as soon as the footprint exceeds `most`;
  // the result then exceeds `most` too, but is not complete. Does not allocate. One step for each
  // field of any length, except that packed integers are counted.
  absl::StatusOr<WireFootprint> Measure(google::protobuf::io::ZeroCopyInputStream* bytes,
                                        size_t size, uint64_t most) const;

  // For the same bytes, if they exceeded `most`: the field that takes most, as
  // "packhouse.v1.Pattern.entries occurs 70000 times, which take 12345 bytes", counted as far as
  // Measure() got.
  std::string LargestField(google::protobuf::io::ZeroCopyInputStream* bytes, size_t size,
                           uint64_t most) const;

 private:
  struct Shape;
  struct Field;
  struct Tally;
  class Walk;

  const Shape* AddShape(const google::protobuf::Message& prototype);

  std::vector<std::unique_ptr<Shape>>
      shapes_;             // The message's own first, then those of its sub-messages.
  size_t num_fields_ = 0;  // Of all shapes.
};

// The table of a type of message; made at the first call. Thread-safe.
template <typename Message>
const FootprintTable& FootprintTableOf() {
  static const FootprintTable* const table = new FootprintTable(Message::default_instance());
  return *table;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_WIRE_FOOTPRINT_H_
