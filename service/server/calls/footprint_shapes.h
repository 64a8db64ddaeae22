// Internal to wire_footprint.h: the memory that protobuf and the allocator take for the parts of a
// message, and what a table knows of each type of message.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_FOOTPRINT_SHAPES_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_FOOTPRINT_SHAPES_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"
#include "service/server/calls/wire_footprint.h"

namespace packhouse {
namespace footprint {

// Above this length protobuf does not trust it, and lets the string grow as its bytes come.
inline constexpr uint64_t kLongString = 50'000'000;
// A short string is in the object itself.
inline constexpr uint64_t kShortString = 15;

// From here on the allocator may take whole pages.
inline constexpr uint64_t kMapped = uint64_t{128} << 10;
inline constexpr uint64_t kPage = 4096;

// The bytes that the allocator takes for `bytes`: glibc's on 64 bits.
constexpr uint64_t Allocated(uint64_t bytes) {
  return std::max<uint64_t>(32, (bytes + 8 + 15) / 16 * 16) + (bytes < kMapped ? 0 : kPage);
}

// The array of the first element; and one more element of an array that has just doubled.
inline constexpr uint64_t kFirstArray = Allocated(16);
constexpr uint64_t GrownElement(uint64_t bytes) { return 2 * bytes; }
// While an array grows the old one still exists: all elements except the new one, and a header.
inline constexpr uint64_t kOldHeader = 16;

inline constexpr uint64_t kStringObject = Allocated(sizeof(std::string));
inline constexpr uint64_t kUnknownSet =
    Allocated(sizeof(void*) + sizeof(google::protobuf::UnknownFieldSet)) + kFirstArray;
inline constexpr uint64_t kUnknownField = sizeof(google::protobuf::UnknownField);
inline constexpr uint64_t kPointer = sizeof(void*);

// Characters of a string, without its object.
inline uint64_t Characters(uint64_t length) {
  if (length <= kShortString) return 0;
  if (length <= kLongString) return Allocated(std::max(length, 2 * kShortString) + 1);
  uint64_t capacity = kLongString;
  while (capacity < length) capacity *= 2;
  return Allocated(capacity + 1) + Allocated(capacity / 2 + 1);
}

}  // namespace footprint

struct FootprintTable::Field {
  enum class Kind : uint8_t { kUnknown, kVarint, kFixed32, kFixed64, kString, kMessage };

  Kind kind = Kind::kUnknown;
  bool repeated = false;
  uint8_t element_bytes = 0;       // Of a scalar, in its array.
  uint8_t bit = 0;                 // Of the message's `seen`; 64 and up: none.
  uint32_t index = 0;              // Among all fields of the table.
  const Shape* message = nullptr;  // Of a kMessage.
  const google::protobuf::FieldDescriptor* descriptor = nullptr;
};

struct FootprintTable::Shape {
  const google::protobuf::Descriptor* descriptor;
  uint64_t object_bytes;      // Size of an empty one on the heap.
  std::vector<Field> fields;  // By field number, from 0, with gaps.
  // Fields with larger numbers, by number.
  std::vector<Field> far_fields;

  const Field* Find(uint32_t number) const {
    if (number < fields.size()) {
      const Field& field = fields[number];
      return field.kind == Field::Kind::kUnknown ? nullptr : &field;
    }
    for (const Field& field : far_fields) {
      if (static_cast<uint32_t>(field.descriptor->number()) == number) return &field;
    }
    return nullptr;
  }
};

// The memory of each field so far.
struct FootprintTable::Tally {
  struct Entry {
    const google::protobuf::FieldDescriptor* field = nullptr;
    uint64_t count = 0;
    uint64_t bytes = 0;
  };
  std::vector<Entry> of_fields;
  Entry unknown;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_FOOTPRINT_SHAPES_H_
