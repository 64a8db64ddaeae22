// What a message will take in memory, told from its bytes before they are parsed.
//
// Two bytes of a request can ask for a hundred: an empty sub-message is a tag and a length on the
// wire, and an object with a pointer to it in memory. So the bytes are walked first, field by field
// along the message's descriptor, and what would take too much is not parsed at all.
//
// Everything that is allocated is counted as the allocator takes it (a header, multiples of 16),
// and arrays that grow as they are at their worst: twice as long as they need be, and of one of
// them the old one still there. So the footprint is not below what protobuf allocates at any
// moment, and below three times what it keeps.
#ifndef PACKHOUSE_SERVICE_WIRE_WIRE_FOOTPRINT_H_
#define PACKHOUSE_SERVICE_WIRE_WIRE_FOOTPRINT_H_

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

// How many times its bytes a message may take in memory, beside 1 MiB.
inline constexpr uint64_t kFootprintTimes = 4;
template <typename Message>
inline constexpr uint64_t kFootprintTimesOf = kFootprintTimes;
// A pattern of a plan to start from is about 15 bytes, and 200 in memory: a plan for many sizes is
// no attack. What it takes beyond kFootprintTimes must find room like anything else.
template <>
inline constexpr uint64_t kFootprintTimesOf<v1::PlanRequest> = 16;

// Most bytes of memory that a message of `size` bytes may take.
constexpr uint64_t MostFootprint(uint64_t size, uint64_t times = kFootprintTimes) {
  return times * size + (uint64_t{1} << 20);
}

struct WireFootprint {
  // Of the message while it is parsed and after.
  uint64_t bytes = 0;
  // Of these, what fields take that the service does not know.
  uint64_t unknown_bytes = 0;
};

// The tables for one type of message: which field has which place in memory. Immutable after
// construction; thread-safe.
class FootprintTable {
 public:
  // For messages of the type of `message`.
  explicit FootprintTable(const google::protobuf::Message& message);
  ~FootprintTable();
  FootprintTable(const FootprintTable&) = delete;
  FootprintTable& operator=(const FootprintTable&) = delete;

  // Of the one message that the `size` bytes are.
  //
  // INVALID_ARGUMENT if they are truncated or malformed, or nested more than 100 deep. Bytes that
  // protobuf parses are never refused as malformed. Stops as soon as the footprint exceeds `most`:
  // then the result does, and is not the whole. Without allocation; one step a field, however long
  // it is, but packed integers are counted.
  absl::StatusOr<WireFootprint> Measure(google::protobuf::io::ZeroCopyInputStream* bytes,
                                        size_t size, uint64_t most) const;

  // Which field of a message that exceeded `most` takes most of it: "packhouse.v1.Pattern.entries
  // occurs 70000 times, which take 12345 bytes", counted as far as Measure() got. For the same
  // bytes.
  std::string LargestField(google::protobuf::io::ZeroCopyInputStream* bytes, size_t size,
                           uint64_t most) const;

 private:
  struct Shape;
  struct Field;
  struct Tally;
  class Walk;

  const Shape* AddShape(const google::protobuf::Message& prototype);

  std::vector<std::unique_ptr<Shape>> shapes_;  // The message's first, then those that it reaches.
  size_t num_fields_ = 0;                       // Of all shapes.
};

// The table of a type of message; made when it is first asked for. Thread-safe.
template <typename Message>
const FootprintTable& FootprintTableOf() {
  static const FootprintTable* const table = new FootprintTable(Message::default_instance());
  return *table;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WIRE_WIRE_FOOTPRINT_H_
