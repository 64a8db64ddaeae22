#include "client/cli/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace packhouse::client {

std::string JsonString(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string JsonReal(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.17g", value) : "null";
}

std::string JsonArray(const std::vector<std::string>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ", "), "]");
}

std::string JsonLines(const std::vector<std::string>& values) {
  if (values.empty()) return "[]";
  return absl::StrCat("[\n  ", absl::StrJoin(values, ",\n  "), "]");
}

JsonObject& JsonObject::Add(absl::string_view name, absl::string_view text) {
  return AddJson(name, JsonString(text));
}

JsonObject& JsonObject::Add(absl::string_view name, const char* text) {
  return Add(name, absl::string_view(text));
}

JsonObject& JsonObject::Add(absl::string_view name, uint64_t value) {
  return AddJson(name, absl::StrCat(value));
}

JsonObject& JsonObject::Add(absl::string_view name, double value) {
  return AddJson(name, JsonReal(value));
}

JsonObject& JsonObject::Add(absl::string_view name, bool value) {
  return AddJson(name, value ? "true" : "false");
}

JsonObject& JsonObject::AddJson(absl::string_view name, absl::string_view json) {
  absl::StrAppend(&fields_, fields_.empty() ? "" : ", ", JsonString(name), ": ", json);
  return *this;
}

std::string JsonObject::Render() const { return absl::StrCat("{", fields_, "}"); }

}  // namespace packhouse::client
