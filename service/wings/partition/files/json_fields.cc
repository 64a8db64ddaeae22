#include "service/wings/partition/files/json_fields.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr int kIndent = 4;

absl::Status WrongField(const std::string& key, absl::string_view must) {
  return absl::InvalidArgumentError(absl::StrCat(Quoted(key), " must be ", must));
}

absl::StatusOr<const ReadJson*> Member(const ReadJson& object, const std::string& key) {
  if (!object.is_object()) return WrongField(key, "a member of an object");
  const auto member = object.find(key);
  if (member == object.end()) return WrongField(key, "there");
  return &*member;
}

absl::StatusOr<std::string> Dumped(const OrderedJson& value, int indent) {
  // The library throws for bytes that are not UTF-8.
  try {
    return value.dump(indent);
  } catch (const OrderedJson::exception&) {
    return absl::InvalidArgumentError("a name is not UTF-8");
  }
}

}  // namespace

void AppendMember(std::string key, OrderedJson value, OrderedJson& object) {
  std::vector<std::pair<const std::string, OrderedJson>>& members =
      object.get_ref<OrderedJson::object_t&>();
  members.emplace_back(std::move(key), std::move(value));
}

absl::StatusOr<ReadJson> ParseJsonObject(absl::string_view text) {
  ReadJson value = ReadJson::parse(text.begin(), text.end(), nullptr, false);
  if (value.is_discarded()) return absl::InvalidArgumentError("is no JSON");
  if (!value.is_object()) return absl::InvalidArgumentError("is JSON, but no object");
  return value;
}

absl::StatusOr<std::string> JsonLine(const OrderedJson& value) { return Dumped(value, -1); }

absl::StatusOr<std::string> JsonIndented(const OrderedJson& value) {
  return Dumped(value, kIndent);
}

absl::StatusOr<std::string> StringField(const ReadJson& object, const std::string& key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const value, Member(object, key));
  if (!value->is_string()) return WrongField(key, "a string");
  return value->get<std::string>();
}

absl::StatusOr<uint64_t> NumberField(const ReadJson& object, const std::string& key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const value, Member(object, key));
  if (!value->is_number_unsigned()) return WrongField(key, "a whole number of at least 0");
  return value->get<uint64_t>();
}

absl::StatusOr<std::vector<uint64_t>> NumbersOf(const ReadJson& value, const std::string& key) {
  if (!value.is_array()) return WrongField(key, "a list of whole numbers of at least 0");
  std::vector<uint64_t> numbers;
  for (const ReadJson& item : value) {
    if (!item.is_number_unsigned()) {
      return WrongField(key, "a list of whole numbers of at least 0");
    }
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

absl::StatusOr<std::vector<uint64_t>> NumbersField(const ReadJson& object, const std::string& key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const value, Member(object, key));
  return NumbersOf(*value, key);
}

absl::StatusOr<std::vector<std::string>> StringsField(const ReadJson& object,
                                                      const std::string& key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const value, Member(object, key));
  if (!value->is_array()) return WrongField(key, "a list of strings");
  std::vector<std::string> strings;
  for (const ReadJson& item : *value) {
    if (!item.is_string()) return WrongField(key, "a list of strings");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

absl::StatusOr<const ReadJson*> ObjectField(const ReadJson& object, const std::string& key) {
  PH_ASSIGN_OR_RETURN(const ReadJson* const value, Member(object, key));
  if (!value->is_object()) return WrongField(key, "an object");
  return value;
}

}  // namespace packhouse
