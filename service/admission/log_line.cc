#include "service/admission/log_line.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace packhouse {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// The number of bytes of the first character of `text`; 0 if they are not UTF-8 (RFC 3629: the
// shortest form, no surrogates, nothing above U+10FFFF).
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t size = 0;
  uint8_t least = 0x80;
  uint8_t most = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    size = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    size = 3;
    if (first == 0xE0) least = 0xA0;
    if (first == 0xED) most = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    size = 4;
    if (first == 0xF0) least = 0x90;
    if (first == 0xF4) most = 0x8F;
  } else {
    return 0;
  }
  if (text.size() < size || byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return size;
}

void AppendCharacter(absl::string_view character, std::string& out) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() > 1) {
    absl::StrAppend(&out, character);
  } else if (first == '"' || first == '\\') {
    absl::StrAppend(&out, "\\", character);
  } else if (first < 0x20 || first == 0x7F) {
    absl::StrAppendFormat(&out, "\\u%04x", first);
  } else {
    out.push_back(character[0]);
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
