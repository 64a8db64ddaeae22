#include "service/base/log_line.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/text_characters.h"

namespace packhouse {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

void AppendCharacter(absl::string_view character, std::string& out) {
  const char32_t code = CodePointOf(character);
  if (IsControl(code)) {
    // What is above U+FFFF is two halves in JSON.
    if (code > 0xFFFF) absl::StrAppendFormat(&out, "\\u%04x", 0xD800 + ((code - 0x10000) >> 10));
    const uint32_t last = code > 0xFFFF ? 0xDC00 + (code & 0x3FF) : code;
    absl::StrAppendFormat(&out, "\\u%04x", last);
  } else if (code == '"' || code == '\\') {
    absl::StrAppend(&out, "\\", character);
  } else {
    absl::StrAppend(&out, character);
  }
}

}  // namespace

std::string JsonString(absl::string_view text, size_t max_bytes) {
  std::string out = "\"";
  size_t at = 0;
  while (at < text.size()) {
    const size_t size = CharacterBytes(text.substr(at));
    if (at + std::max<size_t>(size, 1) > max_bytes) break;
    AppendCharacter(size == 0 ? kReplacement : text.substr(at, size), out);
    at += std::max<size_t>(size, 1);
  }
  if (at < text.size()) absl::StrAppend(&out, "... (", text.size(), " bytes)");
  out.push_back('"');
  return out;
}

std::string JsonMembers(absl::string_view event, absl::Span<const LogField> fields) {
  std::string out = absl::StrCat("\"event\":", JsonString(event, LogField::kMaxNameBytes));
  for (const LogField& field : fields) {
    absl::StrAppend(&out, ",", JsonString(field.key(), LogField::kMaxNameBytes), ":");
    if (const auto* text = std::get_if<absl::string_view>(&field.value())) {
      absl::StrAppend(&out, JsonString(*text, field.max_bytes()));
    } else if (const auto* signed_value = std::get_if<int64_t>(&field.value())) {
      absl::StrAppend(&out, *signed_value);
    } else if (const auto* unsigned_value = std::get_if<uint64_t>(&field.value())) {
      absl::StrAppend(&out, *unsigned_value);
    } else if (const auto* truth = std::get_if<bool>(&field.value())) {
      absl::StrAppend(&out, *truth ? "true" : "false");
    } else {
      const double real = std::get<double>(field.value());
      absl::StrAppend(&out, std::isfinite(real) ? absl::StrCat(real) : "null");
    }
  }
  return out;
}

}  // namespace packhouse
