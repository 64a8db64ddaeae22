#include "service/server/calls/wire_footprint.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/unknown_field_set.h"
#include "google/protobuf/wire_format_lite.h"

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

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::ZeroCopyInputStream;

// Field numbers below this have a place of their own.
constexpr int kNearFields = 256;

}  // namespace

// One walk over a message. Not recursive: the enclosing messages are on a stack of its own.
class FootprintTable::Walk {
 public:
  Walk(google::protobuf::io::ZeroCopyInputStream* bytes, uint64_t most, Tally* tally)
      : in_(bytes), most_(most), tally_(tally) {}

  // False if the bytes are malformed.
  bool Run(const Shape* shape, size_t size) {
    if (size > static_cast<size_t>(std::numeric_limits<int>::max())) return false;
    footprint_.bytes = shape->object_bytes + footprint::kOldHeader;
    frames_[0].shape = shape;
    frames_[0].outer_limit = in_.PushLimit(static_cast<int>(size));
    frames_[0].Clear();
    for (;;) {
      if (footprint_.bytes > most_) return true;
      const uint32_t tag = in_.ReadTag();
      if (tag == 0) {
        // The end of the innermost message, or an invalid tag.
        if (!in_.ConsumedEntireMessage() || frames_[depth_].group != 0) return false;
        if (depth_ == 0) return true;
        in_.PopLimit(frames_[depth_].outer_limit);
        --depth_;
        continue;
      }
      if (!ReadField(tag)) return false;
    }
  }

  const WireFootprint& footprint() const { return footprint_; }

 private:
  using CodedInputStream = google::protobuf::io::CodedInputStream;
  using WireFormatLite = google::protobuf::internal::WireFormatLite;

  // Protobuf's own bound on nesting.
  static constexpr int kMaxDepth = 100;

  struct Frame {
    const Shape* shape;                   // Null inside a group: groups are unknown.
    CodedInputStream::Limit outer_limit;  // The limit of the enclosing message; not for a group.
    uint32_t group;                       // Field number; 0 for a message.
    uint64_t seen;                        // Bits of the fields that it already has.
    uint64_t array_bytes;                 // Elements of its arrays.
    bool has_unknown;
    bool is_merged;  // It is merged into an existing message.

    void Clear() {
      group = 0;
      seen = 0;
      array_bytes = 0;
      has_unknown = false;
      is_merged = false;
    }
  };

  bool ReadField(uint32_t tag) {
    const auto number = static_cast<uint32_t>(WireFormatLite::GetTagFieldNumber(tag));
    if (number == 0) return false;
    Frame& frame = frames_[depth_];
    const Field* const field = frame.shape == nullptr ? nullptr : frame.shape->Find(number);
    using Kind = Field::Kind;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT: {
        uint64_t value;
        if (!in_.ReadVarint64(&value)) return false;
        AddScalar(frame, field, Kind::kVarint);
        return true;
      }
      case WireFormatLite::WIRETYPE_FIXED64:
        AddScalar(frame, field, Kind::kFixed64);
        return in_.Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        AddScalar(frame, field, Kind::kFixed32);
        return in_.Skip(4);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return ReadDelimited(frame, field);
      case WireFormatLite::WIRETYPE_START_GROUP:
        AddUnknown(frame, footprint::Allocated(sizeof(google::protobuf::UnknownFieldSet)) +
                              footprint::kFirstArray);
        if (depth_ == kMaxDepth) return false;
        ++depth_;
        frames_[depth_].Clear();
        frames_[depth_].shape = nullptr;
        frames_[depth_].group = number;
        return true;
      case WireFormatLite::WIRETYPE_END_GROUP:
        if (frame.group != number) return false;
        --depth_;
        return true;
    }
    return false;
  }

  bool ReadDelimited(Frame& frame, const Field* field) {
    int length;
    if (!in_.ReadVarintSizeAsInt(&length)) return false;
    // Missing bytes are not counted.
    if (length > in_.BytesUntilLimit()) return false;
    if (field == nullptr) {
      AddUnknown(frame,
                 footprint::kStringObject + footprint::Characters(static_cast<uint64_t>(length)));
      return in_.Skip(length);
    }
    switch (field->kind) {
      case Field::Kind::kMessage: {
        if (depth_ == kMaxDepth) return false;
        const bool is_merged = AddObject(frame, *field, field->message->object_bytes);
        ++depth_;
        frames_[depth_].Clear();
        frames_[depth_].is_merged = is_merged;
        frames_[depth_].shape = field->message;
        frames_[depth_].outer_limit = in_.PushLimit(length);
        return true;
      }
      case Field::Kind::kString: {
        const bool is_merged = AddObject(frame, *field, footprint::kStringObject);
        // A growing string may double while the old one still exists.
        const auto characters = static_cast<uint64_t>(length) * (is_merged ? 2 : 1);
        Add(field, footprint::Characters(characters), 0);
        return in_.Skip(length);
      }
      default:
        break;
    }
    if (!field->repeated) {
      AddUnknown(frame,
                 footprint::kStringObject + footprint::Characters(static_cast<uint64_t>(length)));
      return in_.Skip(length);
    }
    switch (field->kind) {
      case Field::Kind::kFixed32:
        AddElements(frame, *field, static_cast<uint64_t>(length) / 4);
        return in_.Skip(length);
      case Field::Kind::kFixed64:
        AddElements(frame, *field, static_cast<uint64_t>(length) / 8);
        return in_.Skip(length);
      default:
        return CountVarints(frame, *field, length);
    }
  }

  // Packed integers: each has one byte without a high bit.
  bool CountVarints(Frame& frame, const Field& field, int length) {
    while (length > 0) {
      const void* data;
      int size;
      if (!in_.GetDirectBufferPointer(&data, &size)) return false;
      size = std::min(size, length);
      const auto* const bytes = static_cast<const int8_t*>(data);
      AddElements(frame, field,
                  static_cast<uint64_t>(
                      std::count_if(bytes, bytes + size, [](int8_t byte) { return byte >= 0; })));
      if (footprint_.bytes > most_) return true;
      if (!in_.Skip(size)) return false;
      length -= size;
    }
    return true;
  }

  void AddScalar(Frame& frame, const Field* field, Field::Kind kind) {
    if (field == nullptr || field->kind != kind) {
      AddUnknown(frame, 0);
    } else if (field->repeated) {
      AddElements(frame, *field, 1);
    }
  }

  // Whether this is the first occurrence of the field in this message.
  static bool IsFirst(Frame& frame, const Field& field) {
    if (field.bit >= 64) return true;
    const uint64_t bit = uint64_t{1} << field.bit;
    if ((frame.seen & bit) != 0) return false;
    frame.seen |= bit;
    return true;
  }

  // An array of this message grows by `bytes`; only one array grows at a time. An array that is
  // merged into has elements that are not counted here.
  void AddGrowth(Frame& frame, uint64_t bytes) {
    if (frame.is_merged) {
      footprint_.bytes += bytes;
      return;
    }
    frame.array_bytes += bytes;
    if (frame.array_bytes <= growth_bytes_) return;
    footprint_.bytes += frame.array_bytes - growth_bytes_;
    if (growth_bytes_ < footprint::kMapped / 2 && frame.array_bytes >= footprint::kMapped / 2) {
      footprint_.bytes += 2 * footprint::kPage;
    }
    growth_bytes_ = frame.array_bytes;
  }

  void AddElements(Frame& frame, const Field& field, uint64_t count) {
    if (count == 0) return;
    const uint64_t more = IsFirst(frame, field) ? count - 1 : count;
    Add(&field,
        more * footprint::GrownElement(field.element_bytes) +
            (more == count ? 0 : footprint::kFirstArray),
        count);
    AddGrowth(frame, count * field.element_bytes);
  }

  // Adds a string or a message of `bytes`. Returns whether it may reuse an existing object: a field
  // that is not repeated and comes again. It is counted again nevertheless, since no serializer
  // sends that.
  bool AddObject(Frame& frame, const Field& field, uint64_t bytes) {
    const bool is_first = IsFirst(frame, field);
    if (field.repeated) {
      bytes += is_first ? footprint::kFirstArray : footprint::GrownElement(footprint::kPointer);
      AddGrowth(frame, footprint::kPointer);
    }
    Add(&field, bytes, 1);
    return !field.repeated && (frame.is_merged || !is_first || field.bit >= 64);
  }

  void AddUnknown(Frame& frame, uint64_t bytes) {
    bytes += footprint::GrownElement(footprint::kUnknownField);
    AddGrowth(frame, footprint::kUnknownField);
    if (!frame.has_unknown && frame.group == 0) bytes += footprint::kUnknownSet;
    frame.has_unknown = true;
    footprint_.unknown_bytes += bytes;
    Add(nullptr, bytes, 1);
  }

  void Add(const Field* field, uint64_t bytes, uint64_t count) {
    footprint_.bytes += bytes;
    if (tally_ == nullptr) return;
    Tally::Entry& entry = field == nullptr ? tally_->unknown : tally_->of_fields[field->index];
    if (field != nullptr) entry.field = field->descriptor;
    entry.count += count;
    entry.bytes += bytes;
  }

  CodedInputStream in_;
  const uint64_t most_;
  Tally* const tally_;  // Null: the fields are not tallied.
  WireFootprint footprint_;
  uint64_t growth_bytes_ = 0;  // The array bytes of the message that has most.
  int depth_ = 0;
  std::array<Frame, kMaxDepth + 1> frames_;
};

FootprintTable::FootprintTable(const Message& message) {
  AddShape(*message.GetReflection()->GetMessageFactory()->GetPrototype(message.GetDescriptor()));
}
FootprintTable::~FootprintTable() = default;

const FootprintTable::Shape* FootprintTable::AddShape(const Message& prototype) {
  const Descriptor* const descriptor = prototype.GetDescriptor();
  for (const auto& shape : shapes_) {
    if (shape->descriptor == descriptor) return shape.get();
  }
  shapes_.push_back(std::make_unique<Shape>());
  Shape* const shape = shapes_.back().get();
  shape->descriptor = descriptor;
  shape->object_bytes = footprint::Allocated(prototype.SpaceUsedLong());
  for (int f = 0; f < descriptor->field_count(); ++f) {
    const FieldDescriptor* const from = descriptor->field(f);
    Field field;
    field.descriptor = from;
    field.repeated = from->is_repeated();
    field.bit = static_cast<uint8_t>(std::min(f, 64));
    field.index = static_cast<uint32_t>(num_fields_++);
    switch (WireFormatLite::WireTypeForFieldType(
        static_cast<WireFormatLite::FieldType>(from->type()))) {
      case WireFormatLite::WIRETYPE_VARINT:
        field.kind = Field::Kind::kVarint;
        break;
      case WireFormatLite::WIRETYPE_FIXED32:
        field.kind = Field::Kind::kFixed32;
        break;
      case WireFormatLite::WIRETYPE_FIXED64:
        field.kind = Field::Kind::kFixed64;
        break;
      default:
        field.kind = Field::Kind::kString;
        break;
    }
    switch (from->cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        field.element_bytes = 1;
        break;
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_UINT32:
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_ENUM:
        field.element_bytes = 4;
        break;
      default:
        field.element_bytes = 8;
        break;
    }
    if (from->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      field.kind = Field::Kind::kMessage;
      field.message = AddShape(
          *prototype.GetReflection()->GetMessageFactory()->GetPrototype(from->message_type()));
    }
    const auto number = static_cast<size_t>(from->number());
    if (number >= kNearFields) {
      shape->far_fields.push_back(field);
      continue;
    }
    if (number >= shape->fields.size()) shape->fields.resize(number + 1);
    shape->fields[number] = field;
  }
  return shape;
}

absl::StatusOr<WireFootprint> FootprintTable::Measure(ZeroCopyInputStream* bytes, size_t size,
                                                      uint64_t most) const {
  Walk walk(bytes, most, nullptr);
  if (walk.Run(shapes_.front().get(), size)) return walk.footprint();
  return absl::InvalidArgumentError("truncated or malformed");
}

std::string FootprintTable::LargestField(ZeroCopyInputStream* bytes, size_t size,
                                         uint64_t most) const {
  Tally tally;
  tally.of_fields.resize(num_fields_);
  Walk(bytes, most, &tally).Run(shapes_.front().get(), size);
  const Tally::Entry& largest =
      *std::max_element(tally.of_fields.begin(), tally.of_fields.end(),
                        [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (largest.bytes <= tally.unknown.bytes) {
    return absl::StrCat("fields that are not of the message occur ", tally.unknown.count,
                        " times, which take ", tally.unknown.bytes, " bytes");
  }
  return absl::StrCat(std::string(largest.field->full_name()), " occurs ", largest.count,
                      " times, which take ", largest.bytes, " bytes");
}

}  // namespace packhouse
