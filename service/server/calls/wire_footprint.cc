#include "service/server/calls/wire_footprint.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "google/protobuf/wire_format_lite.h"
#include "service/server/calls/footprint_shapes.h"
#include "service/server/calls/footprint_walk.h"

namespace packhouse {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::ZeroCopyInputStream;

// Field numbers below this have a place of their own.
constexpr int kNearFields = 256;

}  // namespace

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
