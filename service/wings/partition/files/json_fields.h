// JSON: what is written keeps its order, and what is read is checked.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_JSON_FIELDS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_JSON_FIELDS_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// To write; its members keep their order.
using OrderedJson = nlohmann::ordered_json;
// To read: members are found by binary search, in the order of their names.
using ReadJson = nlohmann::json;

// `key` must not be a member yet: this is not checked. O(1), where operator[] searches.
void AppendMember(std::string key, OrderedJson value, OrderedJson& object);

// INVALID_ARGUMENT if `text` is no JSON, or no object.
absl::StatusOr<ReadJson> ParseJsonObject(absl::string_view text);

// On one line, or indented by four spaces as Python's json.dump does with indent=4.
// INVALID_ARGUMENT if a string is not UTF-8.
absl::StatusOr<std::string> JsonLine(const OrderedJson& value);
absl::StatusOr<std::string> JsonIndented(const OrderedJson& value);

// A member of `object`. INVALID_ARGUMENT naming `key` if it is missing or of another type, or if
// `object` is none.
absl::StatusOr<std::string> StringField(const ReadJson& object, const std::string& key);
absl::StatusOr<uint64_t> NumberField(const ReadJson& object, const std::string& key);
absl::StatusOr<std::vector<uint64_t>> NumbersField(const ReadJson& object, const std::string& key);
absl::StatusOr<std::vector<std::string>> StringsField(const ReadJson& object,
                                                      const std::string& key);
// Lives as long as `object`.
absl::StatusOr<const ReadJson*> ObjectField(const ReadJson& object, const std::string& key);

// `value` itself; `key` is for the message.
absl::StatusOr<std::vector<uint64_t>> NumbersOf(const ReadJson& value, const std::string& key);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_JSON_FIELDS_H_
