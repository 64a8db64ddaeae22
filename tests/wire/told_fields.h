// Which fields of a message a conversion has left alone, or has not read.
#ifndef PACKHOUSE_TESTS_WIRE_TOLD_FIELDS_H_
#define PACKHOUSE_TESTS_WIRE_TOLD_FIELDS_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"

namespace packhouse {

// What the tests of a program have seen told and read, by the fields' full names.
struct SeenFields {
  std::set<std::string> told;
  std::set<std::string> read;
};
inline SeenFields& Seen() {
  static auto* const seen = new SeenFields();
  return *seen;
}

// The fields of `message` and of all messages within it that have no value, or the default one;
// and numbers and texts that two fields of one message share. So whoever fills what is converted
// with distinct values sees which fields have no place in the conversion, or another's. Of a oneof
// one field has a value. Messages of a repeated field are taken together: each of their fields has
// a value in one of them. Sorted by path, such as "report.balance.achieved".
inline std::vector<std::string> UnsetFields(const std::vector<const google::protobuf::Message*>& of,
                                            const std::string& path = "",
                                            std::set<std::string>* set = nullptr) {
  std::vector<std::string> untold;
  const google::protobuf::Descriptor& type = *of.front()->GetDescriptor();
  std::map<std::string, std::string> field_of_value;
  for (int f = 0; f < type.field_count(); ++f) {
    const google::protobuf::FieldDescriptor& field = *type.field(f);
    const std::string name = path + field.name();
    std::vector<const google::protobuf::Message*> within;
    bool is_told = false;
    bool has_value = false;
    for (const google::protobuf::Message* const message : of) {
      const google::protobuf::Reflection& reflection = *message->GetReflection();
      if (field.is_repeated()) {
        const int size = reflection.FieldSize(*message, &field);
        is_told = is_told || size != 0;
        has_value = has_value || size != 0;
        if (field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
        for (int i = 0; i < size; ++i) {
          within.push_back(&reflection.GetRepeatedMessage(*message, &field, i));
        }
      } else if (reflection.HasField(*message, &field) ||
                 (field.real_containing_oneof() != nullptr &&
                  reflection.HasOneof(*message, field.real_containing_oneof()))) {
        is_told = true;
        if (!reflection.HasField(*message, &field)) continue;
        has_value = true;
        if (field.cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
          within.push_back(&reflection.GetMessage(*message, &field));
        } else if (field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_BOOL &&
                   field.cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_ENUM) {
          std::string value;
          google::protobuf::TextFormat::PrintFieldValueToString(*message, &field, -1, &value);
          const auto [other, is_new] = field_of_value.try_emplace(value, field.name());
          if (!is_new && of.size() == 1) {
            untold.push_back(absl::StrCat(name, ": ", value, ", as ", other->second));
          }
        }
      }
    }
    if (!is_told) untold.push_back(name);
    if (has_value && set != nullptr) set->insert(field.full_name());
    if (within.empty()) continue;
    for (std::string& each : UnsetFields(within, name + ".", set))
      untold.push_back(std::move(each));
  }
  return untold;
}
// Of a message that a test fills by itself.
inline std::vector<std::string> UnsetFields(const google::protobuf::Message& message) {
  return UnsetFields(std::vector{&message});
}

// The same of what is converted into messages. What has a value is noted as told.
inline std::vector<std::string> UntoldFields(
    const std::vector<const google::protobuf::Message*>& of) {
  return UnsetFields(of, "", &Seen().told);
}
inline std::vector<std::string> UntoldFields(const google::protobuf::Message& message) {
  return UntoldFields(std::vector{&message});
}

// Clears one field after the other of `part`, which is `message` or a message within it, and asks
// `describe` for what is converted then.
inline void FindUnreadFields(const google::protobuf::Message& message,
                             google::protobuf::Message& part, const std::string& path,
                             const std::function<std::string()>& describe, const std::string& whole,
                             std::vector<std::string>& unread) {
  const google::protobuf::Reflection& reflection = *part.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(part, &fields);
  for (const google::protobuf::FieldDescriptor* const field : fields) {
    const std::string name = path + field->name();
    const std::unique_ptr<google::protobuf::Message> kept(part.New());
    kept->CopyFrom(part);
    reflection.ClearField(&part, field);
    if (describe() == whole) {
      unread.push_back(name);
    } else {
      Seen().read.insert(field->full_name());
    }
    part.CopyFrom(*kept);
    if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
      const int size = field->is_repeated() ? reflection.FieldSize(part, field) : 1;
      for (int i = 0; i < size; ++i) {
        FindUnreadFields(message,
                         field->is_repeated() ? *reflection.MutableRepeatedMessage(&part, field, i)
                                              : *reflection.MutableMessage(&part, field),
                         name + ".", describe, whole, unread);
      }
    }
  }
}

// The fields with a value whose value makes no difference: `describe(message)` says all that is
// converted from it, or why it is refused. With UntoldFields() of the same messages, which lists
// the fields without a value: what no conversion reads. By path, as often as they are there.
template <typename Message, typename Describe>
std::vector<std::string> UnreadFields(Message message, const Describe& describe) {
  std::vector<std::string> unread;
  FindUnreadFields(
      message, message, "", [&] { return std::string(describe(message)); }, describe(message),
      unread);
  return unread;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_WIRE_TOLD_FIELDS_H_
